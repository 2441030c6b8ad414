"""Every method, one file each, of the five papers."""
