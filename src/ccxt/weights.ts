/**
 * Returns the cost of each request in units of the exchange's rate limits. ccxt's rate limiter uses these costs to stay
 * within the limits.
 */

/** Cost of a write, and of each order of a batch; a read costs one unit times its weight. */
const WRITE_UNITS = 5

/**
 * Weights of the reads that this package makes and that cost more than one unit (`x-weight` in the OpenAPI document).
 * `*` is one part of a path.
 */
export const READ_WEIGHTS: Readonly<Record<string, number>> = {
  '/api/v1/orders': 2,
  '/api/v1/orders/*': 10,
  '/api/v1/users/*/orders': 2,
  '/api/v1/users/*/activity': 5,
  '/api/v1/users/*/positions': 2,
  '/api/v1/events/*': 12,
  '/api/v1/candles/*': 3,
  '/api/v1/holders/*': 2,
  '/api/v1/resolution/*': 5,
}

/** Returns the units that a request costs. */
export function unitsOf(url: string, method = 'GET', body?: unknown): number {
  const { pathname } = new URL(url)
  if (method === 'GET') return READ_WEIGHTS[pathname] ?? READ_WEIGHTS[patternOf(pathname)] ?? 1
  if (!pathname.endsWith('/batch') || typeof body !== 'string') return WRITE_UNITS
  const { orders } = JSON.parse(body) as { readonly orders: readonly unknown[] }
  return WRITE_UNITS * Math.max(1, orders.length)
}

/** Returns the path with `*` in place of its fourth part, the id of a market, user, order or event. */
function patternOf(pathname: string): string {
  return pathname.replace(/^(\/api\/v1\/[^/]+\/)[^/]+/, '$1*')
}
