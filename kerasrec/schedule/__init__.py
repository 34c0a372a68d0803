"""What runs when, on which tokens, and what is kept: a value that is built, checked and printed."""
