/**
 * Reads with every possible fault in the path or query: a value that is missing, malformed, unknown, out of range or
 * repeated. Also reads of unknown ids. `M` stands for the id of an existing market, `U` for a user's address.
 */

export type BadRead = readonly [path: string, status: number, code: string, field?: string]

const NOT_HEX = `0x${'zz'.repeat(32)}`
const NOBODY = `0x${'ef'.repeat(32)}`

/** Returns faulty reads of a path that contains a market id. The expected answers are the same for every such path. */
function badMarket(path: (market: string) => string, extra = ''): BadRead[] {
  const tail = extra === '' ? '' : `?${extra}`
  return [
    [path('0x12') + tail, 400, 'INVALID_FIELD', 'marketId'],
    [path('nothing') + tail, 400, 'INVALID_FIELD', 'marketId'],
    [path(NOT_HEX) + tail, 400, 'INVALID_FIELD', 'marketId'],
    [path(`${'M'}00`) + tail, 400, 'INVALID_FIELD', 'marketId'],
    [path('%ff') + tail, 400, 'INVALID_FIELD', 'marketId'],
    [`${path('M')}${tail === '' ? '?' : `${tail}&`}nonsense=1`, 400, 'INVALID_FIELD', 'nonsense'],
  ]
}

/** A path of one user. */
function badUser(path: (user: string) => string): BadRead[] {
  return [
    [`${path('0x12')}?chain_id=31337`, 400, 'INVALID_FIELD', 'address'],
    [`${path('M')}?chain_id=31337`, 400, 'INVALID_FIELD', 'address'],
    [`${path(`0x${'g'.repeat(40)}`)}?chain_id=31337`, 400, 'INVALID_FIELD', 'address'],
    [path('U'), 400, 'MISSING_FIELD', 'chain_id'],
    [`${path('U')}?chain_id=31337&chain_id=31337`, 400, 'INVALID_FIELD', 'chain_id'],
    [`${path('U')}?chain_id=31337&nonsense=1`, 400, 'INVALID_FIELD', 'nonsense'],
    ...badNumbers('chain_id', (value) => `${path('U')}?chain_id=${value}`),
  ]
}

function badNumbers(name: string, path: (value: string) => string): BadRead[] {
  const values = ['', '0', '-1', '1.5', '1e3', 'ten', '0x10', '007', '%20', '99999999999999999999']
  return values.map((value) => [path(value), 400, 'INVALID_FIELD', name] as const)
}

function badBefore(path: string): BadRead[] {
  const values = ['', '1', 'M', 'M-1', 'M-0-0', 'M-1-01', `${NOBODY}-1-0`, 'M-1-0-0']
  return [
    ...values.map((value) => [`${path}?before=${value}`, 400, 'INVALID_FIELD', 'before'] as const),
    [`${path}?before=M-1-0&before=M-1-0`, 400, 'INVALID_FIELD', 'before'],
    [`${path}?limit=5&limit=5`, 400, 'INVALID_FIELD', 'limit'],
    ...badNumbers('limit', (value) => `${path}?limit=${value}`),
  ]
}

export const BAD_READS: readonly BadRead[] = [
  ...badMarket((market) => `/api/v1/stats/${market}`),
  ...badMarket((market) => `/api/v1/holders/${market}`),
  ...badMarket((market) => `/api/v1/activity/${market}`),
  ...badMarket((market) => `/api/v1/trades/${market}`),
  ...badMarket((market) => `/api/v1/orderbook/${market}`),
  ...badMarket((market) => `/api/v1/markets/${market}`),
  ...badMarket((market) => `/api/v1/candles/${market}`),
  ...badMarket((market) => `/api/v1/resolution/${market}`),
  ...badBefore('/api/v1/trades/M'),
  ...badBefore('/api/v1/activity/M'),
  ...['stats', 'holders', 'markets', 'candles', 'resolution'].map(
    (name): BadRead => [`/api/v1/${name}/${NOBODY}`, 404, 'MARKET_NOT_FOUND', 'marketId'],
  ),
  ...badUser((user) => `/api/v1/users/${user}/activity`),
  ...badUser((user) => `/api/v1/users/${user}/positions`),
  ...badUser((user) => `/api/v1/users/${user}/orders`),
  ...badNumbers('limit', (value) => `/api/v1/users/U/activity?chain_id=1&limit=${value}`),
  ...badNumbers('limit', (value) => `/api/v1/users/U/positions?chain_id=1&limit=${value}`),
  ...['', '1', '1.2.3', '1.2.3.4.5', 'a.b.c.d', '-1.2.3.4'].map(
    (value): BadRead => [
      `/api/v1/users/U/activity?chain_id=1&before=${value}`,
      400,
      'INVALID_FIELD',
      'before',
    ],
  ),
  ...['', '1', 'U', NOT_HEX].map(
    (value): BadRead => [
      `/api/v1/users/U/positions?chain_id=1&cursor=${value}`,
      400,
      'INVALID_FIELD',
      'cursor',
    ],
  ),
  ['/api/v1/positions/M', 400, 'MISSING_FIELD', 'user'],
  ['/api/v1/positions/M?user=', 400, 'INVALID_FIELD', 'user'],
  ['/api/v1/positions/M?user=0x12', 400, 'INVALID_FIELD', 'user'],
  ['/api/v1/positions/M?user=M', 400, 'INVALID_FIELD', 'user'],
  ['/api/v1/positions/M?user=U&user=U', 400, 'INVALID_FIELD', 'user'],
  ['/api/v1/positions/M?user=U&nonsense', 400, 'INVALID_FIELD', 'nonsense'],
  ['/api/v1/positions/0x12?user=U', 400, 'INVALID_FIELD', 'marketAddress'],
  ['/api/v1/positions/U00?user=U', 400, 'INVALID_FIELD', 'marketAddress'],
  ['/api/v1/markets?chain_id=1&chain_id=1', 400, 'INVALID_FIELD', 'chain_id'],
  ['/api/v1/markets?quick=maybe', 400, 'INVALID_FIELD', 'quick'],
  ['/api/v1/markets?cursor=', 400, 'INVALID_FIELD', 'cursor'],
  ['/api/v1/markets?cursor=M', 400, 'INVALID_FIELD', 'cursor'],
  ['/api/v1/markets?cursor=-1-M', 400, 'INVALID_FIELD', 'cursor'],
  ['/api/v1/markets?page=2', 400, 'INVALID_FIELD', 'page'],
  ...badNumbers('chain_id', (value) => `/api/v1/markets?chain_id=${value}`),
  ...badNumbers('limit', (value) => `/api/v1/markets?limit=${value}`),
  ...badNumbers('chain_id', (value) => `/api/v1/platform/stats?chain_id=${value}`),
  ['/api/v1/platform/stats?chain_id=1&chain_id=2', 400, 'INVALID_FIELD', 'chain_id'],
  ['/api/v1/platform/stats?market=M', 400, 'INVALID_FIELD', 'market'],
  ['/api/v1/orderbook/M?outcome=MAYBE', 400, 'INVALID_FIELD', 'outcome'],
  ['/api/v1/orderbook/M?outcome=2', 400, 'INVALID_FIELD', 'outcome'],
  ['/api/v1/orderbook/M?outcome=YES&outcome=NO', 400, 'INVALID_FIELD', 'outcome'],
  ['/api/v1/candles/M?outcome=2', 400, 'INVALID_FIELD', 'outcome'],
  ['/api/v1/candles/M?outcome=yes', 400, 'INVALID_FIELD', 'outcome'],
  ['/api/v1/candles/M?interval=', 400, 'INVALID_FIELD', 'interval'],
  ['/api/v1/candles/M?interval=2m', 400, 'INVALID_FIELD', 'interval'],
  ['/api/v1/candles/M?interval=1h&interval=1h', 400, 'INVALID_FIELD', 'interval'],
  ['/api/v1/candles/M?from=-1', 400, 'INVALID_FIELD', 'from'],
  ['/api/v1/candles/M?from=1.5', 400, 'INVALID_FIELD', 'from'],
  ['/api/v1/candles/M?from=200&to=100', 400, 'INVALID_FIELD', 'from'],
  ['/api/v1/candles/M?from=99999999999', 400, 'INVALID_FIELD', 'from'],
  ['/api/v1/candles/M?to=100000000000', 400, 'INVALID_FIELD', 'to'],
  ['/api/v1/candles/M?to=now', 400, 'INVALID_FIELD', 'to'],
  ['/api/v1/settlements/0x12', 400, 'INVALID_FIELD', 'txHash'],
  ['/api/v1/pending-trades?limit=x', 400, 'INVALID_FIELD', 'limit'],
  ['/api/v1/pending-trades?before=x', 400, 'INVALID_FIELD', 'before'],
  ['/api/v1/failed-trades?before=1.2.3', 400, 'INVALID_FIELD', 'before'],
  ['/api/v1/failed-trades?before=1.2.3.4&before=1.2.3.4', 400, 'INVALID_FIELD', 'before'],
  ['/api/v1/failed-claims?nonsense=1', 400, 'INVALID_FIELD', 'nonsense'],
  ['/api/v1/stats/', 404, 'NOT_FOUND'],
  ['/api/v1/stats/M/', 404, 'NOT_FOUND'],
  ['/api/v1/users/U', 404, 'NOT_FOUND'],
  ['/api/v1/platform', 404, 'NOT_FOUND'],
]

/** Reads of unknown ids, with their answers. Such a read is not an error; the answer has empty lists or zeros. */
export const UNKNOWN_READS: readonly (readonly [path: string, answer: object])[] = [
  [`/api/v1/trades/${NOBODY}`, { marketId: NOBODY, trades: [], count: 0, nextBefore: null }],
  [`/api/v1/activity/${NOBODY}`, { marketId: NOBODY, activity: [], count: 0, nextBefore: null }],
  [`/api/v1/orderbook/${NOBODY}`, { marketId: NOBODY, bids: [], asks: [], lastUpdate: 0, seq: 0 }],
  [`/api/v1/positions/${NOBODY}?user=U`, { yesShares: 0, noShares: 0 }],
  ['/api/v1/positions/U?user=U', { yesShares: 0, noShares: 0 }],
  [
    '/api/v1/users/U/positions?chain_id=999',
    { positions: [], count: 0, realisedProfit: 0, nextCursor: null },
  ],
  ['/api/v1/users/U/orders?chain_id=999', { orders: [], count: 0, nextCursor: null }],
  [
    '/api/v1/users/U/activity?chain_id=999&limit=1000',
    { activity: [], settlements: [], nextBefore: null },
  ],
  ['/api/v1/markets?chain_id=999', { markets: [], count: 0, nextCursor: null }],
  [
    '/api/v1/platform/stats?chain_id=999',
    {
      chainId: 999,
      totalMarkets: 0,
      activeMarkets: 0,
      resolvedMarkets: 0,
      totalVolume: 0,
      volume24h: 0,
      totalTrades: 0,
      trades24h: 0,
      totalTraders: 0,
      openOrders: 0,
      openInterest: 0,
    },
  ],
]
