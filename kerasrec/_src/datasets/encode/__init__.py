"""From trees to arrays and back."""
