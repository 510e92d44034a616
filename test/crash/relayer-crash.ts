/**
 * Kills the exchange at chosen moments of a relayed operation, restarts it, and sends the same request until
 * it is answered. In every case the chain must have executed the operation once: the owner's nonce at the
 * contract is one, and there is one event. The exchange is killed once per operation, or once while many
 * operations wait at different moments.
 */

import assert from 'node:assert/strict'
import type { Hex } from 'viem'
import type { RelayRequest } from '#client/relayer.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnetAccount, devnetKey, RELAYER } from '#devnet/accounts.ts'
import { UNIT } from '../contracts/support/world.ts'
import { eventually } from '../support/eventually.ts'
import { dealt, randomFrom } from '../support/random.ts'
import { openRelayed, type Person, type Relayed } from '../support/relayed.ts'
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts'

/** A request to the node during which the exchange is killed: before the node receives the request, or after. */
export type KillPoint = {
  readonly method: string
  readonly after: boolean
  /** If set, a request of `method` counts only if a request of the method `behind` came before it. */
  readonly behind?: string
}

/** Kill points, in the order of the requests of an operation. */
export const KILL_POINTS: readonly KillPoint[] = [
  { method: 'eth_call', after: false },
  { method: 'eth_estimateGas', after: true },
  // The operation is in the database, but not signed. The simulation requests the fees, too, before `eth_estimateGas`.
  // `behind` excludes that earlier request.
  { method: 'eth_maxPriorityFeePerGas', after: false, behind: 'eth_estimateGas' },
  // Signed and journalled, not broadcast.
  { method: 'eth_sendRawTransaction', after: false },
  // Broadcast, and the client was not answered.
  { method: 'eth_sendRawTransaction', after: true },
  // Answered, and not confirmed.
  { method: 'eth_getTransactionReceipt', after: false },
]

export type RelayCrashReport = {
  readonly kills: number
  /** Number of operations that had reached the chain when the exchange died. */
  readonly reached: number
  /** Number of the relayer's transactions on the chain, including failed ones. */
  readonly transactions: number
  readonly operations: number
}

/** The relayer's keys. Transactions of one key do not delay those of another. */
const SENDERS = [RELAYER, 16, 17, 18] as const

/** An exchange whose requests to the chain pass through a proxy that the test controls. */
export type FragileRelayed = { readonly relayed: Relayed; readonly proxy: RpcProxy }

export async function openFragile(): Promise<FragileRelayed> {
  let proxy: RpcProxy | undefined
  const relayed = await openRelayed({
    rpcUrl: async ({ url }) => {
      proxy = await startRpcProxy(url)
      return proxy.url
    },
    environment: {
      SIBYL_RELAYER_KEYS: SENDERS.map(devnetKey).join(','),
      SIBYL_RELAYER_REBROADCAST_MS: '200',
      SIBYL_RELAYER_FEE_BUMP_MS: '1000',
    },
  })
  assert.ok(proxy)
  return { relayed, proxy }
}

export async function closeFragile({ relayed, proxy }: FragileRelayed): Promise<void> {
  await relayed.exchange.dispose()
  await proxy.close()
  await relayed.chain.close()
}

/** Returns the number of transactions that the relayer's keys have sent on the chain. */
export async function sentByAll({ relayed }: FragileRelayed): Promise<number> {
  let sent = 0
  for (const sender of SENDERS) {
    const { address } = devnetAccount(sender)
    sent += await relayed.chain.publicClient.getTransactionCount({ address })
  }
  return sent
}

/** Holds one operation at each of the given points, then kills the process once. */
export async function crashRelayerOnce(
  fragile: FragileRelayed,
  points: readonly KillPoint[],
): Promise<RelayCrashReport> {
  const { relayed, proxy } = fragile
  const before = await sentByAll(fragile)
  const crowd = await Promise.all(
    points.map(async (point) => {
      const owner = await relayed.person(UNIT)
      const request = await relayed.again(owner).relayer.sign.ctfApproval()
      return { point, owner, request, isHere: false, isBehind: point.behind === undefined }
    }),
  )
  const dead = Promise.withResolvers<never>()
  dead.promise.catch(() => {})
  const underWay: typeof crowd = []
  proxy.before = async (method, params) => {
    const held = underWay.find(({ point, owner, isBehind }) => {
      return isBehind && point.method === method && isAbout(params, owner)
    })
    for (const one of underWay) {
      if (one.point.behind === method && isAbout(params, one.owner)) one.isBehind = true
    }
    if (held === undefined) return
    if (held.point.after && !held.isHere) await relayed.chain.chain.request(method, params)
    held.isHere = true
    await dead.promise
  }
  // A request held for one operation must not stop another operation. Requests at the first two kill points name their
  // owner, so the operations for these points can start first. The other operations start in reverse order of their
  // kill points. So each of them passes the earlier points before requests are held there.
  const [early, late] = [crowd.slice(0, 2), crowd.slice(2).toReversed()]
  for (const one of [...early, ...late]) {
    underWay.push(one)
    void submitUntilHeld(relayed, one)
    await eventually(() => assert.ok(one.isHere, `it does not come to ${one.point.method}`))
  }
  await relayed.exchange.kill()
  proxy.before = undefined
  dead.reject(new Error('the exchange is gone'))
  let reached = 0
  for (const { owner } of crowd) if ((await nonceOf(relayed, owner)) > 0n) reached++
  await relayed.exchange.start()
  for (const { owner, request } of crowd) await assertDoneOnce(relayed, owner, request)
  const transactions = (await sentByAll(fragile)) - before
  return { kills: 1, reached, transactions, operations: crowd.length }
}

/** Returns whether a request to the node may be about the account of this person. */
function isAbout(params: unknown[], { address }: Person): boolean {
  const said = JSON.stringify(params).toLowerCase()
  // Requests for fees and for receipts are short and name no account, so a short request may be about any account.
  return said.length < 100 || said.includes(address.slice(2).toLowerCase())
}

export async function crashRelayer(
  fragile: FragileRelayed,
  points: readonly KillPoint[],
  onRound?: (round: number, point: KillPoint) => void,
): Promise<RelayCrashReport> {
  const { relayed, proxy } = fragile
  let reached = 0
  const before = await sentByAll(fragile)
  for (const [round, point] of points.entries()) {
    onRound?.(round, point)
    const owner = await relayed.person(UNIT)
    const request = await relayed.again(owner).relayer.sign.ctfApproval()
    await killedAt(relayed, proxy, point, owner, request)
    if ((await nonceOf(relayed, owner)) > 0n) reached++
    await relayed.exchange.start()
    await assertDoneOnce(relayed, owner, request)
  }
  const transactions = (await sentByAll(fragile)) - before
  return { kills: points.length, reached, transactions, operations: points.length }
}

/** Returns this many kill points in random order. A kill point is repeated only after every kill point has occurred. */
export function randomPoints(kills: number, seed: number): KillPoint[] {
  return dealt(randomFrom(seed), KILL_POINTS, kills)
}

async function killedAt(
  relayed: Relayed,
  proxy: RpcProxy,
  { method, after, behind }: KillPoint,
  owner: Person,
  request: RelayRequest,
): Promise<void> {
  const { chain, exchange } = relayed
  const dead = Promise.withResolvers<void>()
  let isBehind = behind === undefined
  proxy.before = async (asked, params) => {
    if (asked === behind) isBehind = true
    if (asked !== method || !isBehind) return
    proxy.before = undefined
    if (after) await chain.chain.request(asked, params)
    await exchange.kill()
    dead.resolve()
    throw new Error('the exchange is gone')
  }
  void submitUnheard(relayed, { owner, request })
  await dead.promise
}

/**
 * Sends a request repeatedly until it is held at its kill point. An attempt may fail earlier: if one of its chain
 * requests is in the same batch as a held request, it gets no answer.
 */
async function submitUntilHeld(
  relayed: Relayed,
  one: { owner: Person; request: RelayRequest; isHere: boolean },
): Promise<void> {
  while (!one.isHere && !(await submitUnheard(relayed, one)));
}

/** Sends a request whose answer should not arrive; returns whether an answer arrived. */
async function submitUnheard(
  { again }: Relayed,
  { owner, request }: { owner: Person; request: RelayRequest },
): Promise<boolean> {
  return again(owner)
    .relayer.submit(request, { signal: AbortSignal.timeout(15_000) })
    .then(
      () => true,
      (error: unknown) => {
        assert.ok(error instanceof SibylError, String(error))
        return false
      },
    )
}

async function nonceOf({ chain }: Relayed, { address }: Person): Promise<bigint> {
  return chain.read(chain.conditionalTokens, 'nonces', [address])
}

export async function assertDoneOnce(
  relayed: Relayed,
  owner: Person,
  request: RelayRequest,
): Promise<void> {
  const { chain } = relayed
  const { conditionalTokens, settlement } = chain
  const { tx_hash } = await relayed.again(owner).relayer.submit(request)
  const receipt = await eventually(() =>
    chain.publicClient.getTransactionReceipt({ hash: tx_hash as Hex }),
  )
  assert.equal(receipt.status, 'success')
  assert.deepEqual(await relayed.again(owner).relayer.submit(request), { success: true, tx_hash })
  assert.equal(await nonceOf(relayed, owner), 1n)
  const events = await chain.publicClient.getContractEvents({
    address: conditionalTokens.address,
    abi: conditionalTokens.abi,
    eventName: 'ApprovalForAll',
    args: { account: owner.address },
    fromBlock: 0n,
  })
  assert.equal(events.length, 1)
  const approved = [owner.address, settlement.address] as const
  assert.equal(await chain.read(conditionalTokens, 'isApprovedForAll', approved), true)
}
