"""Checks the labels of tree nodes against the logits that are to predict them."""

import tensorflow as tf

NO_LABEL = -1


def tree_labels(
    y_true: tf.Tensor, y_pred: tf.Tensor, asked_by: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns labels and logits that fit together, and says where a label is.

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
    # A new tensor carries no Keras mask: what counts is said by the labels alone.
    logits = tf.cast(tf.convert_to_tensor(y_pred), tf.float32)
    labels = tf.cast(tf.convert_to_tensor(y_true), tf.int32)
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
    in_range = tf.reduce_all((labels >= NO_LABEL) & (labels < num_classes))
    check = tf.debugging.Assert(
        in_range,
        [
            f"{asked_by} expects every label to be -1 (no label) or a class from 0 to "
            "classes - 1. Received: labels from",
            tf.reduce_min(labels),
            "to",
            tf.reduce_max(labels),
            "with logits for",
            num_classes,
            "classes. Give the Dense layer of the logits more units, or map the labels.",
        ],
    )
    # Eager mode has checked already and returns None.
    with tf.control_dependencies([] if check is None else [check]):
        labels = tf.identity(labels)
    return labels, logits, tf.not_equal(labels, NO_LABEL)


def node_weights(sample_weight: tf.Tensor | None, labelled: tf.Tensor) -> tf.Tensor:
    """Spreads sample weights over tree nodes.

    Args:
        sample_weight: None, or weights of trees `[batch]` (or `[batch, 1]`), or of tree nodes
            `[batch, nodes]`.
        labelled: bool `[batch, nodes]`.

    Returns:
        float32 `[batch, nodes]`, 0 where there is no label.
    """
    weights = tf.cast(labelled, tf.float32)
    if sample_weight is None:
        return weights
    sample_weight = tf.cast(tf.convert_to_tensor(sample_weight), tf.float32)
    if sample_weight.shape.rank == 1:
        sample_weight = sample_weight[:, tf.newaxis]
    return weights * sample_weight
