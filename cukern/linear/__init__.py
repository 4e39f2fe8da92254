"""Linear algebra: products, decompositions, equations, einsum."""
