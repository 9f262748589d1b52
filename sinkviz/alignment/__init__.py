"""Word alignment: links from couplings, gold links that people made, and how well the two agree."""
