"""Distributed PyTorch training on Google TPUs with Ray: text in, trained decoder out."""

import logging

# It logs each refused request with its traceback; what matters of it is raised all the same.
logging.getLogger("gcsfs").setLevel(logging.CRITICAL)
