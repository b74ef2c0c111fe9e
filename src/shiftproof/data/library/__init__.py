"""The library of published datasets on this machine: download, unpack, import."""
