"""What is sent to a borrowed GPU for a quarter of an hour, and done there (docs/first-gpu.md)."""
