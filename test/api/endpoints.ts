/**
 * The endpoints that the API promises: who may call them, what they take, what comes back. Written
 * down here once more, by hand, so that neither the routes nor the document can drift from it.
 */

export type Endpoint = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  /** Open to all, a bearer token where the exchange asks for one, a wallet's signature. */
  readonly auth: 'public' | 'write' | 'wallet'
  /** Query parameters, and whether each is needed. */
  readonly query?: Readonly<Record<string, 'required' | 'optional'>>
  /** Fields of the body. */
  readonly body?: readonly string[]
  /** Fields that every answer has. */
  readonly fields?: readonly string[]
  /** A list in the answer, and the fields of its entries. */
  readonly list?: readonly [name: string, fields: readonly string[]]
  /** Fields that only some answers have; the document knows them. */
  readonly sometimes?: readonly string[]
}

const OPEN_ORDER = ['orderHash', 'marketId', 'side', 'price', 'size', 'remainingSize', 'timestamp']
const ORDERS = [...OPEN_ORDER, 'outcome', 'expiration', 'chainId']
const TRADE = ['price', 'size', 'buyer', 'seller', 'outcome', 'timestamp', 'txHash']
const MARKET = [
  ...['id', 'question', 'description', 'category', 'contractAddress', 'maker', 'expiration'],
  ...['chainId', 'resolved', 'bestAskPrice', 'createdAt'],
]
const PENDING_TRADE = [
  ...['tradeId', 'marketId', 'outcome', 'price', 'size', 'buyer', 'seller', 'buyOrderHash'],
  ...['sellOrderHash', 'status', 'matchedAt', 'txHash', 'attempts'],
]
const CLAIM = [
  ...['txHash', 'userAddress', 'marketAddress', 'marketId', 'payout', 'winningOutcome'],
  'submittedAt',
]
const QUICK_MARKET = [
  ...['id', 'marketId', 'asset', 'intervalMinutes', 'startPrice', 'startTime', 'endTime'],
  ...['resolved', 'priceSource', 'createdAt', 'endPrice', 'outcome'],
]
const POSITION = ['yesShares', 'noShares']
const COST = ['totalInvested', 'yesCost', 'noCost']
const PERMIT = ['chainId', 'owner', 'deadline', 'v', 'r', 's']
const RELAYED = ['success', 'tx_hash']

export const ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'POST',
    path: '/api/v1/api-keys',
    auth: 'wallet',
    body: ['address', 'signature', 'name'],
    fields: ['success', 'api_key_id', 'api_private_key', 'message'],
  },
  {
    method: 'POST',
    path: '/api/v1/orders',
    auth: 'write',
    body: ['order', 'signature', 'permitSignature'],
    fields: ['orderHash', 'status', 'matches', 'timestamp'],
  },
  {
    method: 'GET',
    path: '/api/v1/orders',
    auth: 'public',
    query: { trader: 'required', market: 'optional' },
    fields: ['count'],
    list: ['orders', ORDERS],
  },
  {
    method: 'DELETE',
    path: '/api/v1/orders/{hash}',
    auth: 'write',
    query: { marketId: 'required', side: 'optional' },
    fields: ['status', 'orderHash'],
  },
  {
    method: 'GET',
    path: '/api/v1/users/{address}/orders',
    auth: 'public',
    query: { chain_id: 'required' },
    fields: ['count'],
    list: ['orders', ORDERS],
  },
  {
    method: 'GET',
    path: '/api/v1/failed-trades',
    auth: 'public',
    fields: ['count'],
    list: ['trades', [...PENDING_TRADE, 'reason', 'failedAt']],
  },
  {
    method: 'GET',
    path: '/api/v1/pending-trades',
    auth: 'public',
    fields: ['count'],
    list: ['trades', PENDING_TRADE],
  },
  {
    method: 'GET',
    path: '/api/v1/settlements/{txHash}',
    auth: 'public',
    fields: ['found'],
    sometimes: [
      ...['txHash', 'chainId', 'status', 'blockNumber', 'confirmations', 'submittedAt'],
      ...['confirmedAt', 'trades', 'error'],
    ],
  },
  {
    method: 'GET',
    path: '/api/v1/markets',
    auth: 'public',
    query: { chain_id: 'optional' },
    fields: ['count'],
    list: ['markets', MARKET],
  },
  {
    method: 'GET',
    path: '/api/v1/stats/{marketId}',
    auth: 'public',
    fields: ['marketId', 'contractAddress', 'volume24h', 'totalVolume', 'lastPrice'],
  },
  {
    method: 'GET',
    path: '/api/v1/holders/{marketId}',
    auth: 'public',
    fields: ['totalHolders'],
    list: ['topHolders', ['address', 'yesShares', 'noShares', 'totalShares', 'totalInvested']],
  },
  {
    method: 'GET',
    path: '/api/v1/activity/{marketId}',
    auth: 'public',
    fields: ['marketId', 'count'],
    list: ['activity', [...TRADE, 'tradeId', 'takerSide', 'status']],
  },
  {
    method: 'GET',
    path: '/api/v1/platform/stats',
    auth: 'public',
    query: { chain_id: 'optional' },
    fields: [
      ...['chainId', 'totalMarkets', 'activeMarkets', 'resolvedMarkets', 'totalVolume'],
      ...['volume24h', 'totalTrades', 'trades24h', 'totalTraders', 'openOrders', 'openInterest'],
    ],
  },
  {
    method: 'GET',
    path: '/api/v1/orderbook/{marketId}',
    auth: 'public',
    query: { outcome: 'optional' },
    fields: ['marketId', 'asks', 'lastUpdate'],
    list: ['bids', ['price', 'size']],
  },
  {
    method: 'GET',
    path: '/api/v1/trades/{marketId}',
    auth: 'public',
    fields: ['marketId', 'count'],
    list: ['trades', TRADE],
  },
  {
    method: 'GET',
    path: '/api/v1/users/{address}/activity',
    auth: 'public',
    query: { chain_id: 'required', limit: 'optional' },
    fields: ['settlements'],
    list: [
      'activity',
      [
        ...['tradeId', 'marketId', 'marketQuestion', 'contractAddress', 'role', 'outcome'],
        ...['price', 'size', 'cost', 'status', 'timestamp', 'txHash'],
      ],
    ],
  },
  {
    method: 'GET',
    path: '/api/v1/positions/{marketAddress}',
    auth: 'public',
    query: { user: 'required' },
    fields: POSITION,
    sometimes: COST,
  },
  {
    method: 'POST',
    path: '/api/v1/positions/{marketId}/sync',
    auth: 'write',
    query: { userAddress: 'optional' },
    body: ['userAddress'],
    fields: [...POSITION, 'synced', 'syncedAt', 'blockNumber', 'blockHash'],
    sometimes: COST,
  },
  {
    method: 'GET',
    path: '/api/v1/users/{address}/positions',
    auth: 'public',
    query: { chain_id: 'required' },
    fields: ['count', 'realisedProfit'],
    list: [
      'positions',
      [
        ...['marketId', 'marketQuestion', 'contractAddress', ...POSITION, 'totalInvested'],
        ...['realisedProfit', 'expiration', 'resolved'],
      ],
    ],
  },
  {
    method: 'GET',
    path: '/api/v1/quick-markets/{asset}',
    auth: 'public',
    fields: ['active', 'asset', 'quickMarket'],
    sometimes: ['bestAskPrice', 'nextMarket'],
  },
  {
    method: 'GET',
    path: '/api/v1/quick-markets/{asset}/history',
    auth: 'public',
    fields: ['asset', 'count'],
    list: ['quickMarkets', QUICK_MARKET],
  },
  {
    method: 'GET',
    path: '/api/v1/quick-markets/{asset}/price',
    auth: 'public',
    fields: ['price', 'priceUSD', 'timestamp', 'source'],
  },
  {
    method: 'GET',
    path: '/api/v1/quick-markets/{asset}/price-history',
    auth: 'public',
    fields: ['asset', 'count'],
    list: ['prices', ['price', 'priceUSD', 'timestamp', 'source']],
  },
  { method: 'GET', path: '/api/v1/quick-markets/{asset}/price-stream', auth: 'public' },
  {
    method: 'GET',
    path: '/api/v1/resolution/{marketId}',
    auth: 'public',
    fields: ['marketId', 'expired', 'resolved'],
    sometimes: ['winningOutcome', 'assertion'],
  },
  { method: 'GET', path: '/api/v1/stream', auth: 'public' },
  {
    method: 'GET',
    path: '/api/v1/pending-claims',
    auth: 'public',
    fields: ['count'],
    list: ['claims', CLAIM],
  },
  {
    method: 'GET',
    path: '/api/v1/failed-claims',
    auth: 'public',
    fields: ['count'],
    list: ['claims', [...CLAIM, 'reason']],
  },
  {
    method: 'POST',
    path: '/api/v1/relayer/ctf-approval',
    auth: 'write',
    body: [...PERMIT, 'operator', 'approved'],
    fields: RELAYED,
  },
  {
    method: 'POST',
    path: '/api/v1/relayer/usdc-permit',
    auth: 'write',
    body: [...PERMIT, 'spender', 'value'],
    fields: RELAYED,
  },
  {
    method: 'POST',
    path: '/api/v1/relayer/ctf-redemption',
    auth: 'write',
    body: [
      ...PERMIT,
      ...['collateralToken', 'parentCollectionId', 'conditionId', 'indexSets', 'marketAddress'],
    ],
    fields: RELAYED,
  },
  {
    method: 'POST',
    path: '/api/v1/relayer/batch-ctf-redemption',
    auth: 'write',
    body: ['chainId', 'owner', 'redemptions'],
    fields: ['success', 'txHash', 'status'],
  },
  {
    method: 'POST',
    path: '/api/v1/relayer/propose-resolution',
    auth: 'write',
    body: [
      ...['chainId', 'proposer', 'deadline', 'v', 'r', 's', 'marketAddress', 'outcome'],
      ...['bondPermitDeadline', 'bondV', 'bondR', 'bondS'],
    ],
    fields: RELAYED,
  },
  {
    method: 'POST',
    path: '/api/v1/relayer/settle-market',
    auth: 'write',
    body: ['chainId', 'settler', 'deadline', 'v', 'r', 's', 'marketAddress', 'winningOutcome'],
    fields: RELAYED,
  },
]
