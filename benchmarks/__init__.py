"""Side by side measurements of kerasrec and of what a user would write instead."""
