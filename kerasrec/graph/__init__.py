"""What a program is: types, nodes, tags, printer, checker and interpreter."""
