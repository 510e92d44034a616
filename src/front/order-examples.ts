/** Examples of orders for the OpenAPI document. They have the right shape; nobody signed them. */

import { ZERO_ADDRESS } from '#domain/ids.ts'

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

export const SUBMISSION_EXAMPLE = {
  value: { order, signature: `0x${'5d'.repeat(64)}1b` },
}

export const ACCEPTED_EXAMPLE = {
  value: { orderHash: ORDER_HASH, status: 'accepted', matches: 1, timestamp: 1_800_000_000 },
}

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
  },
}
