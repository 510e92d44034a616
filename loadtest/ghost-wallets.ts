/**
 * The attackers of `ghost-attack.ts`, in a separate process, so that they affect honest orders only through the
 * exchange. Each wallet has its own client address, buys everything that is offered, and sends its next order after the
 * answer to the last one. If it is rate limited, it waits for `TOLD_TO_WAIT_MS`. Orders are signed with a native
 * library and sent as bytes.
 */

import { randomBytes } from 'node:crypto'
import type { MarketId, Uint64 } from '#domain/ids.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Order, YES } from '#domain/order.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import { openDriver, writeRequest } from './http-driver.ts'
import { makeOrderSigner, makeTrader } from './signed-orders.ts'

export type GhostWork = {
  readonly url: string
  readonly marketId: MarketId
  readonly domain: OrderDomain
  readonly wallets: number
  readonly minutes: number
}

export type GhostResult = {
  readonly accepted: number
  readonly matched: number
  readonly refused: Readonly<Record<string, number>>
}

const TOLD_TO_WAIT_MS = 1_000

async function attack({ url, marketId, domain, wallets, minutes }: GhostWork): Promise<void> {
  const driver = await openDriver(url, wallets)
  const sign = makeOrderSigner(domain)
  const expiration = String(Math.floor(Date.now() / 1_000) + 7_200) as Uint64
  const endMs = performance.now() + minutes * 60_000
  const refused: Record<string, number> = {}
  let accepted = 0
  let matched = 0

  function buyAll(wallet: ReturnType<typeof makeTrader>, from: string): Promise<string> {
    const order: Order = {
      ...{ marketId, trader: wallet.address, side: BUY, outcome: YES },
      ...{ price: 530_000 as Price, size: 45_000_000 as Shares },
      nonce: randomBytes(8).readBigUInt64BE().toString() as Uint64,
      ...{ expiration, makerFeeRecipient: ZERO_ADDRESS },
    }
    const { signature } = sign(order, wallet.key)
    const body = JSON.stringify({ order, signature })
    const request = writeRequest('POST', '/api/v1/orders', body, { 'x-forwarded-for': from })
    return new Promise((resolve) => {
      driver.send(request, performance.now(), (answer) => {
        const told = answer.status === 0 ? {} : (JSON.parse(answer.body) as Told)
        if (answer.status === 200) {
          accepted++
          if ((told.matches ?? 0) > 0) matched++
          resolve('')
          return
        }
        const code = told.code ?? 'no answer'
        refused[code] = (refused[code] ?? 0) + 1
        resolve(code)
      })
    })
  }

  await Promise.all(
    Array.from({ length: wallets }, async (_, number) => {
      const wallet = makeTrader()
      const from = `10.2.${number >> 8}.${number & 255}`
      while (performance.now() < endMs) {
        const code = await buyAll(wallet, from)
        if (code === 'RATE_LIMITED' || code === 'no answer') {
          await new Promise((resolve) => setTimeout(resolve, TOLD_TO_WAIT_MS))
        }
      }
    }),
  )
  driver.close()
  process.send?.({ accepted, matched, refused } satisfies GhostResult)
}

type Told = { readonly matches?: number; readonly code?: string }

process.once('message', (work: GhostWork) => {
  attack(work).then(
    () => process.disconnect(),
    (error: unknown) => {
      process.stderr.write(`${String(error)}\n`)
      process.exit(1)
    },
  )
})
