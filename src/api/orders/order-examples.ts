/** Examples of orders for the OpenAPI document. They have the right shape; no wallet signed them. */

import { ZERO_ADDRESS } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'

export const MARKET_ID = '0x2f0ad4b1b8f4a6f7c1e1a9b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6'
export const TRADER = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
export const ORDER_HASH = '0x9c5f7d1c2b3a49586778695a4b3c2d1e0f1021324354657687980a9bacbdcedf'

const order = {
  marketId: MARKET_ID,
  trader: TRADER,
  side: 0,
  outcome: 0,
  price: 420_000,
  size: 10_000_000,
  nonce: '10213902117330424321',
  expiration: 1_900_000_000,
  makerFeeRecipient: ZERO_ADDRESS,
}

const SHAPE_ONLY = 'An example of the format; no wallet signed it'

export const SUBMISSION_EXAMPLE = {
  summary: SHAPE_ONLY,
  value: { order, signature: `0x${'5d'.repeat(64)}1b` },
}

export const SUBMISSION_WITH_PERMIT_EXAMPLE = {
  summary: SHAPE_ONLY,
  value: {
    ...SUBMISSION_EXAMPLE.value,
    permitSignature: {
      nonce: 0,
      value: '4210000',
      deadline: 1_900_000_000,
      v: 27,
      r: `0x${'5d'.repeat(32)}`,
      s: `0x${'3e'.repeat(32)}`,
    },
  },
}

export const BATCH_EXAMPLE = {
  value: {
    orders: [
      SUBMISSION_EXAMPLE.value,
      { ...SUBMISSION_EXAMPLE.value, order: { ...order, marketId: `0x${'0'.repeat(64)}` } },
    ],
  },
}

export const ACCEPTED_EXAMPLE = {
  value: { orderHash: ORDER_HASH, status: 'accepted', matches: 1, timestamp: 1_800_000_000 },
}

export const DUPLICATE_EXAMPLE = { value: { ...ACCEPTED_EXAMPLE.value, duplicate: true } }

/** Example rejections of orders; each names the field at fault. */
export const ORDER_REJECTIONS: readonly Rejection[] = [
  reject('INVALID_FIELD', 'order.side', 'order.side must be an integer from 0 to 1'),
  reject('MISSING_FIELD', 'order.nonce'),
  reject('PRICE_OUT_OF_RANGE', 'order.price'),
  reject('SIZE_NOT_POSITIVE', 'order.size'),
  reject('EXPIRATION_TOO_SOON', 'order.expiration'),
  reject(
    'INVALID_SIGNATURE',
    'signature',
    `invalid signature: the recovered signer is 0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC, not ${TRADER}; the ` +
      `server computed the digest ${ORDER_HASH}`,
  ),
  reject(
    'INVALID_PERMIT',
    'permitSignature.nonce',
    "permitSignature.nonce must be 7: the trader's next permit nonce at the stablecoin is 5, and 2 open orders " +
      'of the trader use the next nonces',
  ),
  reject(
    'NOTIONAL_TOO_SMALL',
    'order.size',
    'the order value (price × size) must be at least 1000000 millionths of the stablecoin',
  ),
  reject('MARKET_NOT_FOUND', 'order.marketId'),
  reject(
    'ORDER_NONCE_TOO_LOW',
    'order.nonce',
    'order.nonce must be at least 500, because the trader has withdrawn all orders with a lower nonce on the ' +
      'chain',
  ),
  reject(
    'TRADER_PAUSED',
    'order.trader',
    "a trade failed, or would have failed, by the trader's fault: their new orders are rejected for 9 more " +
      'seconds, until 2027-01-15T08:00:09.000Z',
  ),
  reject(
    'TOO_MANY_PENDING_TRADES',
    'order.trader',
    'the trader has 1000 or more unsettled trades, which is the maximum: retry when some of them have settled',
  ),
  reject(
    'GAS_BUDGET_SPENT',
    'order.trader',
    'the trader has used 1000 of 1000 settled fills today: their new orders are accepted from ' +
      '2027-01-16T00:00:00.000Z',
  ),
]

export const OPEN_ORDERS_EXAMPLE = {
  value: {
    orders: [
      {
        orderHash: ORDER_HASH,
        marketId: MARKET_ID,
        side: 0,
        outcome: 0,
        price: 420_000,
        size: 10_000_000,
        remainingSize: 7_500_000,
        filled: 2_500_000,
        timestamp: 1_800_000_000,
        expiration: 1_900_000_000,
        chainId: 31_337,
        trader: TRADER,
      },
    ],
    count: 1,
    nextCursor: null,
  },
}
