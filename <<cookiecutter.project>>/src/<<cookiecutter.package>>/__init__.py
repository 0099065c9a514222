"""Distributed PyTorch training on Google TPUs with Ray: text in, trained decoder out."""
