"""Parts of the recipe for phylogenetic trees: data, likelihood, fitting, pictures."""
