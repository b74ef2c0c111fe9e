"""One thread for every test and every process it starts.

The tensors here are small, and two threads that wait for each other on a busy machine take many
times as long as one.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
