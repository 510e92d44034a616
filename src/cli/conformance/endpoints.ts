/**
 * The endpoints that the API of every server must have: access, parameters and answers. The list is written by hand. It
 * is not derived from the routes or the OpenAPI document, so that a wrong change in either of them fails a check. Tests
 * of the API use this list too.
 */

export type Endpoint = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  /** Access: public, a bearer token if the exchange requires one, or a wallet's signature. */
  readonly auth: 'public' | 'write' | 'wallet'
  /** Query parameters by name: required or optional. */
  readonly query: Readonly<Record<string, 'required' | 'optional'>>
  /** Fields of the body. */
  readonly body?: readonly string[]
  /** Fields of every answer. */
  readonly fields: readonly string[]
  /** Name of the list in the answer, and the fields of each entry. */
  readonly list?: readonly [name: string, fields: readonly string[]]
  /** Fields that only some answers have; the OpenAPI document lists them too. */
  readonly sometimes: readonly string[]
}

const ORDER =
  'orderHash marketId side price size remainingSize timestamp outcome expiration chainId'
const TRADE = 'price size buyer seller outcome timestamp txHash'
const PENDING = `tradeId marketId outcome price size buyer seller buyOrderHash sellOrderHash status matchedAt txHash
  attempts`
const CLAIM = 'txHash userAddress marketAddress marketId payout winningOutcome submittedAt'
const PRICE = 'price priceUSD timestamp source'
const PERMIT = 'chainId owner deadline v r s'

/**
 * Syntax of a line: method, path, `?query` (`?query!` if it is required), `{fields of the body}`, `=`, fields
 * of every answer, `list[fields of an entry]`, `(fields of some answers)`
 */
const TABLE = `
POST /api-keys {address signature name} = success api_key_id api_private_key message
POST /orders {order signature permitSignature} = orderHash status matches timestamp
GET /orders ?trader! ?market = count orders[${ORDER}]
DELETE /orders/{hash} ?marketId! ?side = status orderHash
GET /users/{address}/orders ?chain_id! = count orders[${ORDER}]
GET /failed-trades = count trades[${PENDING} reason failedAt]
GET /pending-trades = count trades[${PENDING}]
GET /settlements/{txHash} = found
  (txHash chainId status blockNumber confirmations submittedAt confirmedAt trades error)
GET /markets ?chain_id = count markets[id question description category contractAddress maker expiration chainId
  resolved bestAskPrice createdAt matching]
GET /stats/{marketId} = marketId contractAddress volume24h totalVolume lastPrice
GET /holders/{marketId} = totalHolders topHolders[address yesShares noShares totalShares totalInvested]
GET /activity/{marketId} = marketId count activity[${TRADE} tradeId takerSide status]
GET /platform/stats ?chain_id = chainId totalMarkets activeMarkets resolvedMarkets totalVolume volume24h
  totalTrades trades24h totalTraders openOrders openInterest
GET /orderbook/{marketId} ?outcome ?implied = marketId asks lastUpdate bids[price size]
GET /trades/{marketId} = marketId count trades[${TRADE}]
GET /users/{address}/activity ?chain_id! ?limit = settlements activity[tradeId marketId marketQuestion
  contractAddress role outcome price size cost status timestamp txHash]
GET /positions/{marketAddress} ?user! = yesShares noShares (totalInvested yesCost noCost)
POST /positions/{marketId}/sync ?userAddress {userAddress} = yesShares noShares synced syncedAt blockNumber
  blockHash (totalInvested yesCost noCost)
GET /users/{address}/positions ?chain_id! = count realisedProfit positions[marketId marketQuestion
  contractAddress yesShares noShares totalInvested realisedProfit expiration resolved]
GET /quick-markets/{asset} = active asset quickMarket (bestAskPrice nextMarket)
GET /quick-markets/{asset}/history = asset count quickMarkets[id marketId asset intervalMinutes startPrice
  startTime endTime resolved priceSource createdAt endPrice outcome]
GET /quick-markets/{asset}/price = ${PRICE}
GET /quick-markets/{asset}/price-history = asset count prices[${PRICE}]
GET /quick-markets/{asset}/price-stream =
GET /resolution/{marketId} = marketId expired resolved (winningOutcome assertion)
GET /stream =
GET /pending-claims = count claims[${CLAIM}]
GET /failed-claims = count claims[${CLAIM} reason]
POST /relayer/ctf-approval {${PERMIT} operator approved} = success tx_hash
POST /relayer/stablecoin-permit {${PERMIT} spender value} = success tx_hash
POST /relayer/ctf-redemption {${PERMIT} collateralToken parentCollectionId conditionId indexSets marketAddress}
  = success tx_hash
POST /relayer/batch-ctf-redemption {chainId owner redemptions} = success txHash status
POST /relayer/propose-resolution {chainId proposer deadline v r s marketAddress outcome bondPermitDeadline bondV
  bondR bondS} = success tx_hash
POST /relayer/settle-market {chainId settler deadline v r s marketAddress winningOutcome} = success tx_hash`

export const ENDPOINTS: readonly Endpoint[] = TABLE.trim()
  .replaceAll(/\n +/g, ' ')
  .split('\n')
  .map(endpointOf)

function endpointOf(row: string): Endpoint {
  const [call = '', answer = ''] = row.split('=')
  const [method = '', path = '', ...takes] = wordsOf(call)
  const body = call.split(' {')[1]?.replace('}', '')
  const [plain = '', sometimes = ''] = answer.split(/[()]/)
  const [named = '', entries] = plain.split(/[[\]]/)
  const fields = wordsOf(named)
  // If the answer has a list, the last word before the brackets is the name of the list.
  const list = entries === undefined ? undefined : fields.pop()
  const query = takes.filter((word) => word.startsWith('?')).map((word) => word.slice(1))
  return {
    ...{ method: method as Endpoint['method'], path: `/api/v1${path}` },
    auth: method === 'GET' ? 'public' : path === '/api-keys' ? 'wallet' : 'write',
    query: Object.fromEntries(
      query.map((name) => [name.replace('!', ''), name.endsWith('!') ? 'required' : 'optional']),
    ),
    ...(body === undefined ? {} : { body: wordsOf(body) }),
    fields,
    ...(list === undefined ? {} : { list: [list, wordsOf(entries ?? '')] as const }),
    sometimes: wordsOf(sometimes),
  }
}

function wordsOf(text: string): string[] {
  return text.split(' ').filter((word) => word !== '')
}
