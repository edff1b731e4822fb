"""A Cholesky factorization in tiles, as 19_cholesky.c, in Python: tasks say which tiles they read and update, and nothing else
says what goes after what. NumPy does the work of each tile, and lets other tiles be worked on meanwhile."""
import muster
import numpy as np

SIDE, TILE = 256, 32
TILES = SIDE // TILE


def potrf(a):
    a[:] = np.linalg.cholesky(a)


def trsm(diagonal, a):
    a[:] = np.linalg.solve(diagonal, a.T).T


def gemm(left, right, a):
    a -= left @ right.T


def main():
    distance = np.abs(np.subtract.outer(np.arange(SIDE), np.arange(SIDE)))
    matrix = np.where(distance == 0, SIDE, 1.0 / (1 + distance))
    original = matrix.copy()
    with muster.data(matrix) as whole:
        t = [[whole[i * TILE:(i + 1) * TILE, j * TILE:(j + 1) * TILE] for j in range(TILES)] for i in range(TILES)]
        for k in range(TILES):
            muster.submit(potrf, muster.inout(t[k][k]), name="potrf", priority=2)
            for i in range(k + 1, TILES):
                muster.submit(trsm, t[k][k], muster.inout(t[i][k]), name="trsm", priority=1)
            for i in range(k + 1, TILES):
                for j in range(k + 1, i + 1):
                    muster.submit(gemm, t[i][k], t[j][k], muster.inout(t[i][j]), name="gemm")
        muster.wait()  # raises what a task has raised
    factor = np.tril(matrix)
    worst = np.abs(np.tril(factor @ factor.T - original)).max()
    print(f"{SIDE} x {SIDE} in tiles of {TILE}: largest error {worst:.1e}")
    return int(worst > 1e-9)


if __name__ == "__main__":
    raise SystemExit(main())
