"""How ops are written in Python: the operators that stand for them."""

import ast

OPERATORS: dict[str, ast.operator | ast.cmpop | ast.unaryop] = {
    "AddV2": ast.Add(),
    "Sub": ast.Sub(),
    "Mul": ast.Mult(),
    "RealDiv": ast.Div(),
    "FloorDiv": ast.FloorDiv(),
    "FloorMod": ast.Mod(),
    "MatMul": ast.MatMult(),
    "LogicalAnd": ast.BitAnd(),
    "LogicalOr": ast.BitOr(),
    "Less": ast.Lt(),
    "LessEqual": ast.LtE(),
    "Greater": ast.Gt(),
    "GreaterEqual": ast.GtE(),
    "Equal": ast.Eq(),
    "NotEqual": ast.NotEq(),
    "Neg": ast.USub(),
    "LogicalNot": ast.Not(),
}
