"""How a network is trained and asked.

A `Recipe` says how (epochs, learning rate, augmentation, precision); `batches` mixes the rows of several tasks; `fit`
takes the steps, `checkpoints` lets it be cut and continued exactly; `predict` asks one or many nets for probabilities.
"""
