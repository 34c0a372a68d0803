"""Checks the labels of tree nodes against the logits that are to predict them."""

import tensorflow as tf

NO_LABEL = -1


def tree_labels(
    y_true: tf.Tensor, y_pred: tf.Tensor, asked_by: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns labels and logits that fit together, and where there is a label.

    Args:
        y_true: labels, `[batch, nodes]`, whole numbers of any dtype; -1 where a tree node has
            no label, as padding has none.
        y_pred: logits, `[batch, nodes, classes]`, float of any precision.
        asked_by: name of the loss or metric, for messages.

    Returns:
        `(labels, logits, labelled)`: int32 `[batch, nodes]`, float32 `[batch, nodes, classes]`
        and bool `[batch, nodes]`.

    Raises:
        ValueError: when the shapes can be seen not to fit.
        tf.errors.InvalidArgumentError: when the step runs, for a label that is neither -1 nor a
            class. XLA drops this check, as it drops every assertion.
    """
    # A new tensor carries no Keras mask: the labels alone say which nodes count.
    logits = tf.cast(tf.convert_to_tensor(y_pred), tf.float32)
    labels = tf.convert_to_tensor(y_true)
    if logits.shape.rank != 3 or labels.shape.rank != 2:
        raise ValueError(
            f"{asked_by} expects a label and a row of logits for each tree node: y_true of shape "
            "[batch, nodes] and y_pred of shape [batch, nodes, classes]. "
            f"Received: y_true of shape {labels.shape} and y_pred of shape {logits.shape}. "
            "A tree layer gives the states of all tree nodes with return_sequences=True."
        )
    if not labels.shape.is_compatible_with(logits.shape[:2]):
        raise ValueError(
            f"{asked_by} expects as many labels as rows of logits. Received: y_true of shape "
            f"{labels.shape} and y_pred of shape {logits.shape}, of which [batch, nodes] should "
            "be the same."
        )
    num_classes = tf.shape(logits)[-1]
    # float64 holds all labels that can be classes, and keeps others out of range for the check.
    exact = tf.cast(labels, tf.float64)
    is_class = (exact >= NO_LABEL) & (exact < tf.cast(num_classes, tf.float64))
    wrong = ~is_class | tf.not_equal(exact, tf.floor(exact))
    # By sums, since XLA needs static shapes.
    nodes = tf.shape(labels)[1]
    places = tf.reshape(tf.range(tf.size(labels)), tf.shape(labels))
    place = tf.reduce_max(tf.where(wrong, places, 0))
    check = tf.debugging.Assert(
        ~tf.reduce_any(wrong),
        [
            f"{asked_by} expects every label to be -1 (no label) or a class from 0 to "
            "classes - 1. Received: label",
            tf.reduce_sum(tf.where(tf.equal(places, place), exact, 0.0)),
            "of [tree, node]",
            tf.stack([place // tf.maximum(nodes, 1), place % tf.maximum(nodes, 1)]),
            "with logits for",
            num_classes,
            "classes. Give the Dense layer of the logits more units, or map the labels.",
        ],
    )
    # Eager mode has checked already and returns None.
    with tf.control_dependencies([] if check is None else [check]):
        labels = tf.identity(tf.cast(labels, tf.int32))
    return labels, logits, tf.not_equal(labels, NO_LABEL)


def node_weights(sample_weight: tf.Tensor | None, labelled: tf.Tensor, asked_by: str) -> tf.Tensor:
    """Spreads sample weights over tree nodes.

    Args:
        sample_weight: None, or weights of trees `[batch, 1]`, or of tree nodes `[batch, nodes]`.
        labelled: bool `[batch, nodes]`.
        asked_by: name of the loss or metric, for messages.

    Returns:
        float32 `[batch, nodes]`, 0 where there is no label.

    Raises:
        ValueError: when the weights have another shape, such as `[batch]`, in which Keras passes
            its `class_weight`.
    """
    weights = tf.cast(labelled, tf.float32)
    if sample_weight is None:
        return weights
    sample_weight = checked_weights(sample_weight, asked_by, "or of tree nodes, [batch, nodes]")
    return weights * tf.broadcast_to(sample_weight, tf.shape(labelled))


def checked_weights(sample_weight: tf.Tensor, asked_by: str, alternative: str = "") -> tf.Tensor:
    """Returns sample weights as float32 `[batch, 1]` or `[batch, nodes]`.

    Args:
        sample_weight: must have rank 2.
        asked_by: name of the loss or metric, for messages.
        alternative: what else they may be than weights of trees, for messages.

    Raises:
        ValueError: when they have another rank. Keras looks up `class_weight` by the place of the
            largest label along the last axis, which for labels `[batch, nodes]` is a node. It
            passes the result as `[batch]`, which cannot be told from a user's weights.
    """
    weights = tf.cast(tf.convert_to_tensor(sample_weight), tf.float32)
    if weights.shape.rank != 2:
        raise ValueError(
            f"{asked_by} expects sample weights of trees, [batch, 1], {alternative}".rstrip(", ")
            + f". Received: shape {weights.shape}. If they are weights of trees, add an axis: "
            "sample_weight[:, None]. If they come from fit(class_weight=...), pass "
            "TreeCrossentropy(class_weight=...) instead: Keras would weigh each tree by the number "
            "of the node that has its largest label."
        )
    return weights
