/**
 * A bot with a delegated key, a Safe, and an account with code (EIP-7702) trade on an exchange with a real chain,
 * settle and redeem. The limits of the delegation hold, also after a restart, and a revocation cancels the bot's
 * orders.
 */

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import {
  encodeFunctionData,
  type Hex,
  hashMessage,
  hashTypedData,
  type TypedDataDefinition,
} from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { type Client, createClient } from '#client/client.ts'
import { delegateSigner } from '#client/delegate-signer.ts'
import type { AccountSigner } from '#client/sign-order.ts'
import { devnetKey, RELAYER } from '#devnet/accounts.ts'
import { ours } from '#devnet/artifact.ts'
import { hostileSignerAbi } from '../../contracts/artifacts/test/HostileSigner.abi.ts'
import {
  MAX_UINT256,
  type Market,
  UNIT,
  UNLIMITED,
  ZERO_BYTES32,
} from '../contracts/support/world.ts'
import { eventually } from '../support/eventually.ts'
import { makeSafe, type Safe } from '../support/safe.ts'
import { openSettled, type SettledExchange, type Way } from '../support/settled.ts'

const DAY = 86_400n

let s: SettledExchange
let market: Market
let safe: Safe
const bot = privateKeyToAccount(generatePrivateKey())
let safeKey: PrivateKeyAccount
/** Has code in its account. */
let coded: PrivateKeyAccount
let ann: PrivateKeyAccount
let bob: PrivateKeyAccount

/** Returns a signer for an account without the account's own key: `signDigest` makes the signatures. */
const signerFor = (address: string, signDigest: (digest: Hex) => Promise<Hex>): AccountSigner => ({
  address,
  signTypedData: (typed) => signDigest(hashTypedData(typed as unknown as TypedDataDefinition)),
})
const clientWith = (signer: AccountSigner | Hex): Client =>
  createClient({ url: s.exchange.url, signer })
const botClient = (): Client => clientWith(signerFor(ann.address, (hash) => bot.sign({ hash })))

const terms = (size = '1', price = '0.5') =>
  ({ marketId: market.id, outcome: 'YES', price, size, ttlSeconds: 3_600 }) as const

async function appoint(until: bigint, limits = UNLIMITED): Promise<void> {
  const { chain } = s
  await chain.chain.send(ann, chain.delegates, 'setDelegate', [bot.address, until, limits])
}

/** Sells a share of Bob to this client, and waits until the account `buyer` has the share on the chain. */
async function buyFromBob(client: Client, buyer: Hex): Promise<void> {
  const before = await s.chain.shares(buyer, market.id, 0)
  await s.clientOf(11).orders.place({ ...terms(), side: 'sell' })
  await client.orders.place({ ...terms(), side: 'buy' })
  await eventually(async () => {
    const { trades } = await s.get<{ trades: Way[] }>(`/api/v1/trades/${market.id}`)
    assert.equal(trades[0]?.status, 'confirmed')
    assert.equal((await s.chain.shares(buyer, market.id, 0)) - before, UNIT)
  })
}

async function validated(client: Client, order = terms()) {
  const signed = await client.orders.sign({ ...order, side: 'buy' })
  const response = await fetch(`${s.exchange.url}/api/v1/orders/validate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(signed),
  })
  return (await response.json()) as {
    signer: string | null
    valid: boolean
    errors: { code: string; field?: string; error: string }[]
  }
}

before(async () => {
  s = await openSettled({
    environment: { SIBYL_SETTLEMENT_BATCH_WAIT_MS: '50', SIBYL_RELAYER_KEYS: devnetKey(RELAYER) },
  })
  const { chain } = s
  ;[ann, bob, coded] = [chain.chain.account(10), chain.chain.account(11), chain.chain.account(12)]
  market = await chain.createMarket({ expiration: (await chain.chain.now()) + DAY })
  await chain.fund(ann, { collateral: 2_000n * UNIT, shares: 100n * UNIT, market: market.id })
  await chain.fund(bob, { collateral: 1_000n * UNIT, shares: 100n * UNIT, market: market.id })
  await chain.fund(coded, { collateral: 100n * UNIT })
  safeKey = chain.chain.account(15)
  safe = await makeSafe(chain.chain, chain.chain.account(0), safeKey)
  await chain.chain.send(chain.chain.account(0), chain.collateral, 'mint', [
    safe.address,
    100n * UNIT,
  ])
  await safe.execute(chain.collateral, 'approve', [chain.settlement.address, MAX_UINT256])
  const tokens = chain.conditionalTokens
  await safe.execute(tokens, 'setApprovalForAll', [chain.settlement.address, true])
  await eventually(async () => {
    const open = await createClient({ url: s.exchange.url }).markets({ status: 'open' })
    assert(open.some(({ id }) => id === market.id))
  })
})
after(() => s.dispose())

describe('a bot with a delegated key trades for the account that appointed it', () => {
  it('the exchange accepts a bot’s orders for an account only after the account appoints the bot’s key', async () => {
    const unknown = await validated(botClient())
    assert.equal(unknown.signer, null)
    assert.deepEqual(
      unknown.errors.map(({ code }) => code),
      ['INVALID_SIGNATURE'],
    )
    await appoint((await s.chain.chain.now()) + DAY)
    await eventually(async () => {
      const { valid, signer } = await validated(botClient())
      assert.deepEqual({ valid, signer }, { valid: true, signer: 'delegate' })
    })
    await buyFromBob(botClient(), ann.address)
    assert.equal((await validated(s.clientOf(10))).signer, 'owner')
  })

  it('a bot with a delegated key cannot exceed the limits that the account signed', async () => {
    const limits = { maxOrderSize: 5n * UNIT, maxOpenNotional: 3n * UNIT, markets: [market.id] }
    await appoint((await s.chain.chain.now()) + DAY, limits)
    await eventually(async () => {
      const { errors } = await validated(botClient(), terms('6'))
      assert.deepEqual([errors[0]?.code, errors[0]?.field], ['DELEGATE_LIMIT', 'order.size'])
    })
    const late = { ...terms(), ttlSeconds: 100_000 }
    const { errors } = await validated(botClient(), late as never)
    assert.deepEqual([errors[0]?.code, errors[0]?.field], ['DELEGATE_LIMIT', 'order.expiration'])
    const elsewhere = { ...terms(), marketId: s.marketId, side: 'buy' } as const
    await assert.rejects(botClient().orders.place(elsewhere), {
      code: 'DELEGATE_LIMIT',
      field: 'order.marketId',
    })
  })

  it('a bot cannot exceed its open-order limit with simultaneous orders or after a restart', async () => {
    // Each order is worth 1 dollar. The bot's open orders may be worth at most 3 dollars in total.
    const place = () => botClient().orders.place({ ...terms('5', '0.2'), side: 'buy' })
    const placed = await Promise.allSettled(Array.from({ length: 8 }, place))
    const accepted = placed.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    assert.equal(accepted.length, 3)
    for (const one of placed) {
      if (one.status === 'rejected') assert.equal(one.reason.code, 'DELEGATE_LIMIT')
    }
    await s.exchange.stop()
    await s.exchange.start()
    await assert.rejects(eventuallyPlaced(place), { code: 'DELEGATE_LIMIT' })
    const [first] = accepted
    assert(first !== undefined)
    const { orderHash } = first
    await botClient().orders.cancel({ orderHash, marketId: market.id, side: 'buy' })
    const { orderHash: again } = await eventually(place)
    assert.notEqual(again, orderHash)
  })

  it('a bot whose delegation is revoked loses its open orders and can place no more', async () => {
    const open = () => s.clientOf(10).orders.list({ market: market.id })
    assert.equal((await open()).length, 3)
    const own = await s.clientOf(10).orders.place({ ...terms('5', '0.1'), side: 'buy' })
    await appoint(0n)
    await eventually(async () =>
      assert.deepEqual(
        (await open()).map(({ orderHash }) => orderHash),
        [own.orderHash],
      ),
    )
    await assert.rejects(botClient().orders.place({ ...terms(), side: 'buy' }), {
      code: 'INVALID_SIGNATURE',
    })
    await s.clientOf(10).orders.cancel({ ...own, marketId: market.id, side: 'buy' })
  })

  it('if a reorg removes a bot’s delegation, the bot’s open orders are cancelled', async () => {
    const undo = await s.chain.fork()
    await appoint((await s.chain.chain.now()) + DAY)
    await eventually(async () => assert.equal((await validated(botClient())).valid, true))
    const { orderHash } = await botClient().orders.place({ ...terms('5', '0.1'), side: 'buy' })
    await undo()
    await eventually(async () => assert.equal((await validated(botClient())).valid, false))
    await eventually(async () => {
      const open = await s.clientOf(10).orders.list({ market: market.id })
      assert(!open.some((order) => order.orderHash === orderHash))
    })
  })
})

describe('the relayer sends delegations and cancellations of delegates', () => {
  const secondKey = generatePrivateKey()
  const second = privateKeyToAccount(secondKey)
  const until = async () => Number(await s.chain.chain.now()) + 86_400

  it('the relayer appoints and revokes a delegate, each by one signature of the account', async () => {
    const client = s.clientOf(10)
    const limits = { maxOrderSize: '2', maxOpenNotional: '5', markets: [market.id] }
    await client.delegates.create({ delegate: second.address, until: await until(), ...limits })
    const listed = await eventually(async () => {
      const found = (await client.delegates.list()).find(
        ({ delegate }) => delegate === second.address,
      )
      assert(found?.active)
      return found
    })
    assert.deepEqual(
      [listed.maxOrderSize, listed.maxOpenNotional, listed.markets],
      [2_000_000, 5_000_000, [market.id]],
    )
    const secondClient = clientWith(delegateSigner(ann.address, secondKey))
    await buyFromBob(secondClient, ann.address)
    await client.delegates.revoke(second.address)
    await eventually(async () => assert.equal((await validated(secondClient)).valid, false))
  })

  it('the relayer appoints a delegate of a Safe, and refuses delegations that another account signed', async () => {
    const client = clientWith(signerFor(safe.address, safe.sign))
    await client.delegates.create({ delegate: second.address, until: await until() })
    await eventually(async () => {
      const secondClient = clientWith(delegateSigner(safe.address, secondKey))
      assert.equal((await validated(secondClient)).signer, 'delegate')
    })
    const thief = clientWith(delegateSigner(ann.address, secondKey))
    await assert.rejects(thief.delegates.create({ delegate: bob.address, until: await until() }), {
      code: 'INVALID_SIGNATURE',
    })
    const soon = { delegate: second.address, until: 5 }
    await assert.rejects(client.delegates.create(soon), { code: 'INVALID_FIELD' })
  })

  it('the relayer cancels an order on chain with the signature of a delegate', async () => {
    const client = clientWith(delegateSigner(safe.address, secondKey))
    const submission = await client.orders.sign({ ...terms('5', '0.1'), side: 'buy' })
    await client.orders.submit(submission)
    await client.relayer.cancelOrders({ orders: [submission.order] })
    await eventually(async () => {
      const open = await client.orders.list({ trader: safe.address, market: market.id })
      assert.equal(open.length, 0)
    })
    await assert.rejects(client.relayer.cancelAllBefore(), { code: 'INVALID_SIGNATURE' })
  })
})

describe('accounts with code can trade', () => {
  it('a Safe with one owner trades by signatures that its code accepts', async () => {
    const client = clientWith(signerFor(safe.address, safe.sign))
    assert.equal((await validated(client)).signer, 'contract')
    await buyFromBob(client, safe.address)
    const stranger = clientWith(signerFor(safe.address, (hash) => safeKey.sign({ hash })))
    assert.equal((await validated(stranger)).errors[0]?.code, 'INVALID_SIGNATURE')
  })

  it('a contract account registers and revokes an API key by a signature that its code accepts', async () => {
    const send = (path: string, method: string, body: object) =>
      fetch(`${s.exchange.url}/api/v1/api-keys${path}`, {
        ...{ method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
      })
    const { address } = safe
    const text = `Register API key for Sibyl: ${address}`
    const foreign = await safeKey.signMessage({ message: text })
    assert.equal((await send('', 'POST', { address, signature: foreign })).status, 401)
    const signature = await safe.sign(hashMessage(text))
    const registered = await send('', 'POST', { address, signature })
    assert.equal(registered.status, 200)
    const { api_key_id: id } = (await registered.json()) as { api_key_id: string }
    const revoking = await safe.sign(hashMessage(`Revoke API key ${id} for Sibyl: ${address}`))
    assert.equal((await send(`/${id}`, 'DELETE', { address, signature: revoking })).status, 200)
  })

  it('an account with added code (EIP-7702) can trade with its own key’s signatures', async () => {
    const { chain } = s
    const code = await chain.chain.deploy(chain.chain.account(0), ours('test/HostileReceiver'), [])
    const authorization = await chain.chain
      .wallet(coded)
      .signAuthorization({ contractAddress: code })
    await chain.chain
      .wallet(chain.chain.account(0))
      .sendTransaction({ authorizationList: [authorization], to: bob.address, gas: 200_000n })
    assert.equal((await validated(s.clientOf(12))).signer, 'owner')
    await buyFromBob(s.clientOf(12), coded.address)
  })

  it('an order of an undeployed contract account (ERC-6492) is refused, and the error gives the reason', async () => {
    const wrapped = `0x${'ab'.repeat(96)}${'6492'.repeat(16)}` as Hex
    const signed = await s.clientOf(10).orders.sign({ ...terms(), side: 'buy' })
    const response = await fetch(`${s.exchange.url}/api/v1/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...signed, signature: wrapped }),
    })
    assert.equal(response.status, 400)
    assert.match(((await response.json()) as { error: string }).error, /not deployed \(ERC-6492\)/)
  })

  it('a trade fails with InvalidSignature if a contract account rejects its own signature after the match', async () => {
    const { chain } = s
    const address = await chain.chain.deploy(chain.chain.account(0), ours('test/HostileSigner'), [
      bot.address,
    ])
    const account = { address, abi: hostileSignerAbi }
    await chain.chain.send(chain.chain.account(0), chain.collateral, 'mint', [address, 100n * UNIT])
    const approve = encodeFunctionData({
      ...{ abi: chain.collateral.abi, functionName: 'approve' },
      args: [chain.settlement.address, MAX_UINT256],
    })
    await chain.chain.send(bob, account, 'execute', [chain.collateral.address, approve])
    const client = clientWith(signerFor(address, (hash) => bot.sign({ hash })))
    const bought = await client.orders.place({ ...terms(), side: 'buy' })
    await chain.chain.send(bob, account, 'arm', [2, address, '0x'])
    await s.clientOf(11).orders.place({ ...terms(), side: 'sell' })
    await eventually(async () => {
      const { trades } = await s.get<{ trades: (Way & { reason: string })[] }>(
        '/api/v1/failed-trades',
      )
      const failed = trades.find(({ buyOrderHash }) => buyOrderHash === bought.orderHash)
      assert.match(failed?.reason ?? '', /InvalidSignature/)
    })
  })
})

describe('accounts with delegates or code can redeem after the resolution', () => {
  it('an account with a delegate, a Safe and an account with code redeem after the resolution', async () => {
    const { chain } = s
    await chain.chain.warpTo(market.expiration)
    const proposal = await chain.signProposal(ann, market, true)
    const bond = await chain.bondPermit(ann, market)
    await chain.chain.send(chain.chain.account(1), market, 'proposeResolution', [...proposal, bond])
    await chain.warp(7_200)
    await chain.chain.send(chain.chain.account(1), market, 'settle', [])
    const { conditionalTokens, collateral } = chain
    const redeem = [collateral.address, ZERO_BYTES32, market.id, [1n, 2n]] as const
    const winnings = async (holder: Hex, act: () => Promise<unknown>) => {
      const before = await chain.balance(holder)
      await act()
      return (await chain.balance(holder)) - before
    }
    assert.equal(
      await winnings(safe.address, () =>
        safe.execute(conditionalTokens, 'redeemPositions', redeem),
      ),
      UNIT,
    )
    for (const account of [coded, ann]) {
      const owed = await chain.shares(account.address, market.id, 0)
      const paid = await winnings(account.address, () =>
        chain.chain.send(account, conditionalTokens, 'redeemPositions', redeem),
      )
      assert.equal(paid, owed)
    }
  })
})

/** Repeats `place` while the exchange is loading its markets. Throws the error `DELEGATE_LIMIT` at once. */
async function eventuallyPlaced<T>(place: () => Promise<T>): Promise<T> {
  return eventually(async () => {
    try {
      return { done: await place() }
    } catch (error) {
      if ((error as { code?: string }).code === 'DELEGATE_LIMIT') return { error }
      throw error
    }
  }).then((result) => {
    if ('error' in result) throw result.error
    return result.done as T
  })
}
