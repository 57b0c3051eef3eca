"""Contents that Office files of all programs share: packages, drawings, charts and equations."""
