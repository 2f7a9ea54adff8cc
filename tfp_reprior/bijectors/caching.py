"""What a bijector of state parts remembers from one call to the next: nothing."""


class Uncached:
  """Stands in for the cache of `tfb.Bijector`, as its attribute `_cache`, and keeps nothing.

  The cache of TFP holds on to every graph in which the bijector was traced, and returns tensors
  recorded by one gradient tape to another, which then sees no path to the inputs.

  `_cache` is private to TFP (0.25: FFJORD replaces it too). If TFP renames it, the attribute is
  ignored and the cache of TFP is used: `readout_reprior_test` would tell.
  """

  def __get__(self, bijector, bijector_class=None):
    bound = type(self)()
    bound._bijector = bijector
    return bound

  def forward(self, x, **kwargs):
    return self._bijector._forward(x, **kwargs)

  def inverse(self, y, **kwargs):
    return self._bijector._inverse(y, **kwargs)

  def forward_attributes(self, x, **kwargs):
    del x, kwargs
    return {}

  def inverse_attributes(self, y, **kwargs):
    del y, kwargs
    return {}

  def clear(self):
    pass
