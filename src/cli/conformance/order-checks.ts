/** Checks of orders: rejections must name the right field; an accepted order is placed, listed and cancelled. */

import type { Check } from './check.ts'
import { demand, demandEqual } from './mismatch.ts'
import { demandRefusal } from './service-checks.ts'
import { BYTES32, demandShape, exactly, LIST, NATURAL } from './shape.ts'
import { type Answer, cancel, place, traderOf, type World, withPlaced } from './world.ts'

const NOTHING = `0x${'1'.repeat(64)}`
const ZERO = `0x${'0'.repeat(40)}`
/** Size in bytes of a request body that every server must reject. */
const BODY_BYTES = 2 * 1_048_576

/** Invalid values of order fields; each case replaces one field of a valid order. */
const SPOILT: readonly (readonly [field: string, value: unknown])[] = [
  ['marketId', '0x12'],
  ['trader', '0x12'],
  ['side', 2],
  ['outcome', 2],
  ['price', 0],
  ['price', 1_000_000],
  ['size', 0],
  ['nonce', -1],
  ['expiration', 1],
  ['makerFeeRecipient', '0x12'],
]

type Verdict = {
  readonly valid: boolean
  readonly orderHash: string | null
  readonly recovered: string | null
  readonly errors: readonly { readonly code: string; readonly field?: string }[]
}

async function validate({ ask }: World, body: object): Promise<Verdict> {
  const answer = await ask('/orders/validate', { method: 'POST', body })
  demandEqual('status', answer.status, 200)
  demandShape('the verdict', answer.body, { errors: LIST })
  return answer.body as Verdict
}

function spoil(submission: object & { order: object }, field: string, value: unknown): object {
  return { ...submission, order: { ...submission.order, [field]: value } }
}

const open = (answer: Answer) =>
  (answer.body as { orders?: { orderHash: string; remainingSize: number }[] })?.orders ?? []

export const ORDER_CHECKS: readonly Check[] = [
  {
    id: 'orders.body',
    says: 'a body that is not JSON gets 400, another content type gets 415, and a body that is too large gets 413',
    async run({ ask }) {
      const post = (body: string, type = 'application/json') =>
        ask('/orders/validate', { method: 'POST', body, headers: { 'content-type': type } })
      demandRefusal(await post('{'), { status: 400, code: 'INVALID_JSON' })
      demandRefusal(await post('{}', 'text/plain'), { status: 415 })
      demandRefusal(await post(' '.repeat(BODY_BYTES)), { status: 413 })
    },
  },
  {
    id: 'orders.validate-fields',
    says: 'POST /orders/validate returns an error with the name of each wrong field',
    async run(world) {
      const good = await world.signWithThrowawayKey()
      for (const [field, value] of SPOILT) {
        const answer = await world.ask('/orders/validate', {
          method: 'POST',
          body: spoil(good, field, value),
        })
        // If the server cannot parse the order, it answers with one error. Otherwise it answers with a verdict and a
        // list of errors.
        const { errors, ...refusal } = answer.body as Partial<Verdict> & { field?: string }
        const named = (errors ?? [refusal]).map((error) => error.field)
        const what = `an error that names order.${field} for the value ${JSON.stringify(value)}`
        demand(named.includes(`order.${field}`), what, named)
      }
    },
  },
  {
    id: 'orders.validate-signature',
    says: 'a signature of another wallet, or of a wrong length, is not valid',
    async run(world) {
      const good = await world.signWithThrowawayKey()
      const other = spoil(good, 'trader', ZERO)
      const { valid, errors } = await validate(world, other)
      demandEqual('valid', valid, false)
      const codes = errors.map(({ code }) => code)
      demand(codes.includes('INVALID_SIGNATURE'), 'INVALID_SIGNATURE among the errors', codes)
      const short = { ...good, signature: '0x12' }
      const answer = await world.ask('/orders/validate', { method: 'POST', body: short })
      const said = answer.text
      demand(said.includes('"field":"signature"'), 'an error that names the field signature', said)
    },
  },
  {
    id: 'orders.validate-market',
    says: 'an order for an unknown market is not valid: MARKET_NOT_FOUND',
    async run(world) {
      await world.openMarket()
      const { valid, errors } = await validate(
        world,
        await world.signWithThrowawayKey({ marketId: NOTHING }),
      )
      demandEqual('valid', valid, false)
      const codes = errors.map(({ code }) => code)
      demand(codes.includes('MARKET_NOT_FOUND'), 'MARKET_NOT_FOUND among the errors', codes)
    },
  },
  {
    id: 'orders.validate-good',
    says: 'a correct order is valid, and the answer has its digest and its signer',
    async run(world) {
      const { sign, address } = traderOf(world)
      const { valid, orderHash, recovered, errors } = await validate(world, await sign())
      demand(valid, 'a valid order', errors)
      demandShape('orderHash', orderHash, BYTES32)
      demandEqual('the signer', recovered?.toLowerCase(), address.toLowerCase())
    },
  },
  {
    id: 'orders.refused',
    says: 'POST /orders rejects an invalid field with 400 and the name of the field',
    async run(world) {
      const good = await traderOf(world).sign()
      for (const [field, value] of SPOILT) {
        // Skip this field: an order with a changed expiration can be parsed, but its signature is invalid. The server
        // may then report the signature instead of the expiration.
        if (field === 'expiration') continue
        const answer = await place(world, spoil(good, field, value))
        demandRefusal(answer, { status: 400, field: `order.${field}` })
      }
      demandRefusal(await place(world, {}), { status: 400, field: 'order' })
    },
  },
  {
    id: 'orders.place',
    says: 'the hash of an accepted order is its EIP-712 digest, and the order rests in the book',
    async run(world) {
      await withPlaced(world, async ({ submission, orderHash, answer }) => {
        demandShape('the answer', answer.body, {
          ...{ orderHash: BYTES32, status: exactly('accepted') },
          ...{ matches: exactly(0), timestamp: NATURAL },
        })
        const digest = (await validate(world, submission)).orderHash
        demandEqual('orderHash', orderHash, digest)
      })
    },
  },
  {
    id: 'orders.resubmit',
    says: 'sending the same signed order again is accepted, but the order is open only once',
    async run(world) {
      const { address } = traderOf(world)
      await withPlaced(world, async ({ submission, orderHash }) => {
        const again = await place(world, submission)
        demandEqual('status', again.status, 200)
        const { orderHash: second } = again.body as { orderHash: string }
        demandEqual('orderHash', second, orderHash)
        const path = `/orders?trader=${address}&market=${submission.order.marketId}`
        const found = open(await world.ask(path)).filter((order) => order.orderHash === orderHash)
        demandEqual('open orders with this hash', found.length, 1)
      })
    },
  },
  {
    id: 'orders.listed',
    says: 'an open order is in the order lists of its trader, and the book contains its size',
    async run(world) {
      const { address } = traderOf(world)
      await withPlaced(world, async ({ submission, orderHash }) => {
        const { marketId, price, size } = submission.order
        const { chainId } = await world.openMarket()
        for (const path of [
          `/orders?trader=${address}&market=${marketId}`,
          `/users/${address}/orders?chain_id=${chainId}`,
        ]) {
          const order = open(await world.ask(path)).find((each) => each.orderHash === orderHash)
          demandEqual(`remainingSize in ${path}`, order?.remainingSize, Number(size))
        }
        const { body } = await world.ask(`/orderbook/${marketId}?outcome=YES`)
        const { bids } = body as { bids: { price: number; size: number | string }[] }
        const level = bids.find((each) => each.price === Number(price))
        const most = BigInt(level?.size ?? 0)
        demand(most >= BigInt(size), `a bid size of at least ${size} at price ${price}`, level)
      })
    },
  },
  {
    id: 'orders.cancel',
    says: 'cancelling an open order succeeds; cancelling it again, or cancelling an unknown order, is rejected',
    async run(world) {
      await withPlaced(world, async ({ submission, orderHash }) => {
        const { marketId } = submission.order
        const { status, body } = await cancel(world, orderHash, marketId)
        demandEqual('status', status, 200)
        demandShape('the answer', body, {
          status: exactly('cancelled'),
          orderHash: exactly(orderHash),
        })
        demandRefusal(await cancel(world, orderHash, marketId), {
          status: 409,
          code: 'ORDER_CLOSED',
        })
        const unknown = { status: 404, code: 'ORDER_NOT_FOUND' }
        demandRefusal(await cancel(world, NOTHING, marketId), unknown)
      })
    },
  },
  {
    id: 'positions.sync',
    says: 'POST /positions/{marketId}/sync reads a position again from the chain, or answers 503',
    async run(world) {
      const { address, authorization } = traderOf(world)
      const { id } = await world.openMarket()
      const sync = async (body: object) =>
        world.ask(`/positions/${id}/sync`, {
          ...{ method: 'POST', body, headers: await authorization() },
        })
      demandRefusal(await sync({ userAddress: '0x12' }), { status: 400, field: 'userAddress' })
      const answer = await sync({ userAddress: address })
      if (answer.status === 200) return
      demandRefusal(answer, { status: 503, code: 'CHAIN_UNAVAILABLE' })
      const retry = answer.headers.get('retry-after')
      demand(/^\d+$/.test(retry ?? ''), 'a Retry-After in seconds', retry)
    },
  },
  {
    id: 'relayer.refusals',
    says: 'the relayer answers a malformed request with success: false and a fixed message',
    async run(world) {
      const { chains } = await world.config()
      const word = `0x${'1'.repeat(64)}`
      const good = {
        ...{ chainId: chains[0]?.chainId ?? 1, owner: ZERO, operator: ZERO, approved: true },
        ...{ deadline: '1', v: 27, r: word, s: word },
      }
      const { auth } = await world.config()
      // If the server requires a bearer token and there is no trader, `traderOf` skips the check. Without a token, the
      // server would only report the missing token.
      if (auth.bearer && world.trader === undefined) traderOf(world)
      for (const [body, error] of [
        ['{', 'Invalid request body'],
        [{ ...good, owner: '0x12' }, 'Invalid address format'],
        [{ ...good, r: '0x12' }, 'Invalid signature format'],
        [{ ...good, chainId: 4_294_967_295 }, 'No relayer configured for chain'],
      ] as const) {
        const headers = (await world.trader?.authorization()) ?? {}
        const answer = await world.ask('/relayer/ctf-approval', { method: 'POST', body, headers })
        demand(
          answer.status >= 400 && answer.status < 500,
          'a status from 400 to 499',
          answer.status,
        )
        demandShape('the answer', answer.body, { success: exactly(false), error: exactly(error) })
      }
    },
  },
]
