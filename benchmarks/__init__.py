"""Speed of minicompile beside eager PyTorch and torch.compile. Run as `python -m benchmarks` (`make bench`)."""
