"""SGD-QN: stochastic gradient with a diagonal quasi-Newton scaling, as corrected [Bordes2010]."""

from similia.linalg.compiled import compiled
from similia.losses import loss_slope

#: how far above λ a measured curvature may be
LARGEST_RATIO = 100.0


@compiled
def sgd_qn_pass(w, B, v, moment, clock, X, signs, weights, times, alpha, skip, code):
    """Learn rows X in order; change w, the gains B, v and `clock`, and gather `moment`.

    With g(w) = λw + y F'(y wᵀx)x the regularised gradient, every example moves w -= y F'(y wᵀx) Bx,
    and every `skip` of them

        v = w,   w -= skip λ B w;   on the next example   1/B_i += skip r_i,
        r_i = (g(w) - g(v))_i / (w - v)_i, brought between λ and 100 λ

    The erratum's two points are here: gains are added to as reciprocals, so that 1/B_i is a sum of
    curvatures and shrinks steps by itself, and the ratio comes from an example that w has not been
    fitted to yet. clock = [examples until the next regularisation, whether B is due].
    """
    real = w.dtype.type
    for i in range(len(signs)):
        if weights[i] == 0.0:
            continue
        x, y = X[i], signs[i]
        h = real(0.0)
        for k in range(len(w)):
            h += w[k] * x[k]
        if clock[1]:
            before = real(0.0)
            for k in range(len(w)):
                before += v[k] * x[k]
            change = y * (loss_slope(code, y * h) - loss_slope(code, y * before))
            for k in range(len(w)):
                gap = w[k] - v[k]
                ratio = alpha
                if gap != 0.0:
                    ratio = alpha + change * x[k] / gap
                ratio = min(max(ratio, alpha), LARGEST_RATIO * alpha)
                B[k] = real(B[k] / (1.0 + skip * B[k] * ratio))
            clock[1] = 0
        step = real(-weights[i] * y * loss_slope(code, y * h))
        clock[0] -= 1
        time = real(times[i])
        if clock[0] <= 0:
            clock[0], clock[1] = skip, 1
            for k in range(len(w)):
                v[k] = w[k]
                move = real(-skip * alpha) * B[k] * w[k]
                w[k] += move
                if moment.size:
                    moment[k] += time * move
        for k in range(len(w)):
            w[k] += step * B[k] * x[k]
        if moment.size:
            for k in range(len(w)):
                moment[k] += time * (step * B[k] * x[k])
