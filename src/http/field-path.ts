/** Names a field in an error the way the client would write it: `orders[3].order.price`. */

const LENGTH_MAX = 100

/** Shortens a name from the client, so that it is never echoed at full length. */
export function clipped(name: string): string {
  return name.length > LENGTH_MAX ? `${name.slice(0, LENGTH_MAX)}…` : name
}

/** Turns a JSON pointer, `/orders/3/order/price`, into a path. */
export function pathOfPointer(pointer: string): string {
  let path = ''
  for (const escaped of pointer.split('/').slice(1)) {
    const step = escaped.replaceAll('~1', '/').replaceAll('~0', '~')
    path = joined(path, /^\d+$/.test(step) ? Number(step) : step)
  }
  return clipped(path)
}

export function joined(path: string, step: string | number): string {
  if (typeof step === 'number') return `${path}[${step}]`
  return path === '' ? step : `${path}.${step}`
}
