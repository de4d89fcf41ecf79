"""
Handwritten digits
==================

1,797 images of 8 × 8 pixels from scikit-learn. The map is not given the labels.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from ldmaps import LandmarkDiffusionMap

images, labels = load_digits(return_X_y=True)
model = LandmarkDiffusionMap(9, "coifman", n_landmarks=600)
coordinates = model.fit_transform(images)

figure, axes = plt.subplots(figsize=(6, 4.6), layout="constrained")
dots = axes.scatter(*coordinates[:, :2].T, c=labels, s=6, cmap="tab10")
axes.set(xlabel="ψ₂", ylabel="ψ₃")
figure.colorbar(dots, ticks=range(10), label="digit")
plt.show()

# %%
# The estimators follow scikit-learn, so they work in pipelines. Here a nearest-neighbour classifier uses nine coordinates,
# and each fold is embedded by a map that has not seen it:

pipeline = make_pipeline(
    LandmarkDiffusionMap(9, "coifman", n_landmarks=600), KNeighborsClassifier(n_neighbors=5)
)
print(f"accuracy {cross_val_score(pipeline, images, labels, cv=5).mean():.2f}")
