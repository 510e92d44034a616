/** Capabilities and settings of this exchange, in the form of ccxt. */

/** Supported methods; all others are unsupported. */
const METHODS = [
  ...['fetchMarkets', 'fetchEvents', 'fetchEvent', 'fetchOutcome', 'fetchTime', 'fetchStatus'],
  ...['fetchTicker', 'fetchTickers', 'fetchOrderBook', 'fetchTrades', 'fetchOHLCV'],
  ...['fetchOpenInterest', 'fetchTradingFee', 'fetchSettlements'],
  ...['fetchBalance', 'fetchPosition', 'fetchPositions', 'fetchMyTrades'],
  ...['createOrder', 'createOrders', 'createLimitOrder', 'createMarketOrder', 'editOrder'],
  ...['cancelOrder', 'cancelOrders', 'cancelAllOrders', 'cancelAllOrdersAfter'],
  ...['fetchOrder', 'fetchOpenOrders', 'fetchOrderTrades'],
  ...['watchOrderBook', 'watchTrades', 'watchTicker', 'watchTickers'],
  ...['watchOrders', 'watchMyTrades'],
  ...['unWatchOrderBook', 'unWatchTrades', 'unWatchTicker', 'unWatchOrders', 'unWatchMyTrades'],
]

const NOT_HERE = ['spot', 'margin', 'swap', 'future', 'option', 'createMarketOrderWs']

export const TIMEFRAMES = {
  '1m': '1m',
  '5m': '5m',
  '15m': '15m',
  '1h': '1h',
  '4h': '4h',
  '1d': '1d',
} as const

export const DESCRIPTION = {
  id: 'sibyl',
  name: 'Sibyl',
  countries: [],
  dex: true,
  pro: true,
  certified: false,
  /**
   * Milliseconds per cost unit of ccxt's rate limiter. At 4 ms per unit, the client sends at most 250 units per second:
   * 250 reads or 50 orders (`weights.ts`). By default, an exchange allows each IP address twice as many.
   */
  rateLimit: 4,
  has: {
    ...Object.fromEntries(METHODS.map((name) => [name, true])),
    ...Object.fromEntries(NOT_HERE.map((name) => [name, false])),
    prediction: true,
  },
  timeframes: TIMEFRAMES,
  urls: {
    api: { rest: 'http://127.0.0.1:8080' },
    test: { rest: 'http://127.0.0.1:8080' },
    www: 'http://127.0.0.1:8080',
    doc: ['http://127.0.0.1:8080/docs'],
  },
  requiredCredentials: { apiKey: false, secret: false, privateKey: true, walletAddress: false },
  fees: { trading: { tierBased: false, percentage: true, maker: 0, taker: 0 } },
  /** ccxt's mode TICK_SIZE: the precision of a price or an amount is given as its step size. */
  precisionMode: 4,
  options: {
    /** If true and no market is loaded yet, the first method that names an outcome loads all open markets. */
    loadAllOutcomes: true,
    /** Lifetime in seconds of an order without an expiration. */
    ttlSeconds: 86_400,
    /** Maximum distance of a market order's price from the best price, as a fraction. */
    slippage: 0.05,
    chainId: undefined,
    rpcUrl: undefined,
    pins: undefined,
  },
}
