"""Linear algebra: products, decompositions, linear equations, einsum."""
