"""Fail the build when the PyTorch that was installed is not the variant that was asked for."""

import sys

import torch


def main(variant: str) -> None:
    """Exit with a reason where `variant` (cuda or cpu) and torch's own word differ."""
    cuda = torch.version.cuda
    if (cuda is None) != (variant == "cpu"):
        raise SystemExit(f"asked for the {variant} build of PyTorch, got {torch.__version__} with CUDA {cuda}")
    sys.stdout.write(f"PyTorch {torch.__version__}, CUDA {cuda}, cuDNN {torch.backends.cudnn.version()}\n")


if __name__ == "__main__":
    main(sys.argv[1])
