"""What the recipe for phylogenetic trees is made of: data, likelihood, fitting, pictures."""
