"""Where runs are kept: the protocol of a store, and the stores that come with fastdur."""
