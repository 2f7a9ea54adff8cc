"""What gradients and steps cost: fair timing, and what is timed on the command line."""
