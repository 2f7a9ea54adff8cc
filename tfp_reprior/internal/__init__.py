"""What every room shares: argument checks, lists of state parts, random numbers."""
