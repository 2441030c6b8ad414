"""What artifacts say, in numbers: each is computed here, once. Draws and judges nothing."""
