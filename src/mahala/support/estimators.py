"""The base classes of scikit-learn under types of our own.

scikit-learn has no types, and whatever derives from an untyped class accepts any argument and has any attribute to a
type checker. The stub beside this file declares what mahala uses of these classes.
"""

from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin

__all__ = ["BaseEstimator", "ClassNamePrefixFeaturesOutMixin", "ClassifierMixin", "TransformerMixin"]
