"""How well a way of searching finds what answers: strategies, their quality, and what parts two of them."""
