/** Keeps a bounded number of values. */

/** Sets a value as the newest entry of a map. Deletes the oldest entries while the map has more than `max` entries. */
export function remember<Key, Value>(
  map: Map<Key, Value>,
  key: Key,
  value: Value,
  max: number,
): void {
  map.delete(key)
  map.set(key, value)
  for (const oldest of map.keys()) {
    if (map.size <= max) return
    map.delete(oldest)
  }
}
