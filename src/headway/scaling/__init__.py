"""What a training costs and what it gives: laws and fits of the loss."""
