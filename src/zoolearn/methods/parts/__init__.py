"""Building blocks that methods use and that know of no method.

Memories of examples (`memory`, `reservoir`), gradients as vectors (`flat`, `pergrad`, `curvature`), Gaussian layers and
processes (`gaussian`, `gp`), heads (`heads`, `head_logits`), the weights of past tasks (`weighing`) and the growth of
tasks (`growth`).
"""
