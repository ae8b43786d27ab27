"""Images and objects of the data set COCO: a file of annotations (JSON) and a folder of images.

An object is an annotation that is no crowd and whose box is not empty; objects without such a box are left out with
their labels and outlines.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect.numpy_kernel import DataError

#: The fewest visible keypoints of an image of a data set of keypoints.
MIN_KEYPOINTS = 10
#: The fewest numbers of a polygon: three points.
MIN_COORDINATES = 6


@dataclass(frozen=True)
class Image:
    """An image: its id, size and file; and its objects' boxes (left, top, right, bottom), labels and polygons."""

    image_id: int
    height: int
    width: int
    path: Path
    boxes: list[tuple[float, ...]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    outlines: list[list[list[float]]] = field(default_factory=list)

    @property
    def point_count(self) -> int:
        """The number of points of all polygons."""
        return sum(len(polygon) // 2 for polygons in self.outlines for polygon in polygons)

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The points of all polygons (f32), and for each point its index in the polygon, and the
        indices of the polygon and of the object.
        """
        indices = [
            (i, index, owner)
            for owner, polygons in enumerate(self.outlines)
            for index, polygon in enumerate(polygons)
            for i in range(len(polygon) // 2)
        ]
        flat = [x for polygons in self.outlines for polygon in polygons for x in polygon]
        return np.array(flat, np.float32).reshape(-1, 2), np.array(indices, np.int32).reshape(-1, 3)

    def read(self) -> bytes:
        """The file of the image."""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise DataError(f"expected the file of the image {self.image_id}: {error}") from None


def images_of(annotation_file: str, image_dir: str, remove_images_without_annotations: bool) -> list[Image]:
    """The images of a file of annotations by their ids; the last file that was read is kept.

    Raises:
        DataError: the file cannot be read, or has other content.
    """
    try:
        changed = Path(annotation_file).stat().st_mtime_ns
        return _read(annotation_file, image_dir, remove_images_without_annotations, changed)
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"expected a file of annotations of COCO: {error}") from None
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(
            f"{annotation_file}: expected images, annotations and categories as COCO has them, got others"
            f" ({type(error).__name__}: {error})"
        ) from None


@functools.lru_cache(maxsize=1)
def _read(annotation_file: str, image_dir: str, only_annotated: bool, changed: int) -> list[Image]:
    content = json.loads(Path(annotation_file).read_bytes())
    labels = {number: i + 1 for i, number in enumerate(sorted(c["id"] for c in content["categories"]))}
    images = {
        int(x["id"]): Image(int(x["id"]), int(x["height"]), int(x["width"]), _path(image_dir, x["file_name"]))
        for x in content["images"]
    }
    objects: dict[int, list[Any]] = {number: [] for number in images}
    for one in content["annotations"]:
        if not one["iscrowd"]:
            objects[one["image_id"]].append(one)
    for number, of_image in objects.items():
        for one in of_image:
            _add(images[number], one, labels)
    return [images[n] for n in sorted(images) if not only_annotated or _is_annotated(objects[n])]


def _path(folder: str, name: str) -> Path:
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise DataError(f"expected names of files inside of {folder}, got {name!r}")
    return Path(folder) / name


def _add(image: Image, one: Any, labels: dict[int, int]) -> None:
    """Adds an object to its image, unless its box is empty."""
    left, top, width, height = map(float, one["bbox"])
    right, bottom = left + max(width - 1, 0), top + max(height - 1, 0)
    most = image.width - 1, image.height - 1
    box = tuple(min(max(x, 0.0), most[i % 2]) for i, x in enumerate((left, top, right, bottom)))
    if not (box[2] > box[0] and box[3] > box[1]):
        return
    polygons = one["segmentation"]
    if not isinstance(polygons, list) or any(len(p) % 2 or len(p) < MIN_COORDINATES for p in polygons):
        raise DataError(
            f"annotation {one['id']}: expected a segmentation of polygons of at least 3 points, got"
            f" {str(polygons)[:60]}"
        )
    image.boxes.append(box)
    image.labels.append(labels[one["category_id"]])
    image.outlines.append([[float(x) for x in polygon] for polygon in polygons])


def _is_annotated(objects: list[Any]) -> bool:
    """Whether an image has an object of more than a pixel, and where it has keypoints enough visible ones."""
    if not any(one["bbox"][2] > 1 and one["bbox"][3] > 1 for one in objects):
        return False
    visible = sum(flag > 0 for one in objects for flag in one.get("keypoints", ())[2::3])
    return "keypoints" not in objects[0] or visible >= MIN_KEYPOINTS


def in_order(images: list[Image], shuffle: bool, seed: int) -> Iterator[Image]:
    """Images again and again, in a random order that is another one in each round, or by their ids.

    Raises:
        DataError: there are none.
    """
    if not images:
        raise DataError("expected images with annotations, got none")
    order, epoch = list(images), 0
    while True:
        if shuffle:
            random.Random(seed + epoch).shuffle(order)
        yield from order
        epoch += 1


def grouped(images: Iterable[Image], size: int) -> Iterator[list[Image]]:
    """Batches of images whose height is the same whole multiple of the width; the batch begun first comes first."""
    begun: list[tuple[int, list[Image]]] = []
    source = iter(images)
    while True:
        while not begun or len(begun[0][1]) < size:
            image = next(source)
            ratio = image.height // image.width
            batch = next((b for r, b in begun if r == ratio and len(b) < size), None)
            if batch is None:
                begun.append((ratio, [image]))
            else:
                batch.append(image)
        yield begun.pop(0)[1]
