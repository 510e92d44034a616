/**
 * Hostile behaviour for the fuzz test. Some traders have hostile code in their accounts (EIP-7702). The collateral can
 * become hostile, too: it blocks accounts, refuses transfers, returns nonsense, calls the settlement contract or keeps
 * a fee.
 */
import assert from 'node:assert/strict'
import { encodeFunctionData, type Hex } from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { ours } from '#devnet/artifact.ts'
import { hostileCollateralAbi } from '../../../contracts/artifacts/test/HostileCollateral.abi.ts'
import { hostileReceiverAbi } from '../../../contracts/artifacts/test/HostileReceiver.abi.ts'
import type { Model } from './model.ts'
import type { seeded } from './random.ts'
import type { World } from './world.ts'

type Random = ReturnType<typeof seeded>

/** A call that changes how a hostile contract behaves. */
export type Arming = { readonly name: string; readonly to: Hex; readonly data: Hex }

/**
 * Modes of the hostile account, with their numbers in the contract. `accept` is listed several times, so that enough
 * fills settle.
 */
const RECEIVER_MODES = [
  ['accept', 0],
  ['accept', 0],
  ['accept', 0],
  ['refuse', 1],
  ['refuseHugely', 2],
  ['answerHugely', 3],
  ['answerWrongly', 4],
  ['burnGas', 5],
  ['callBack', 6],
  ['callBack', 6],
] as const
/** Modes of the hostile account's signature check. They apply if the account's own key did not make the signature. */
const SIGNATURE_MODES = [
  ['refuse', 0],
  ['acceptAll', 1],
  ['burnGas', 2],
] as const
const WILLING = new Set(['accept', 'callBack'])
/**
 * Modes of the hostile collateral. The mode that burns gas is left out, because it would leave too little gas for a
 * batch of 16 fills.
 */
const TOKEN_MODES = [
  ['returnFalse', 1],
  ['returnNothing', 2],
  ['refuse', 3],
  ['refuseHugely', 4],
  ['answerHugely', 5],
  ['callBack', 7],
  ['takeFee', 8],
] as const
const REFUSING = new Set(['returnFalse', 'refuse', 'refuseHugely', 'answerHugely'])
const FEE_PART = 50n

export type Hostility = {
  /** Traders whose accounts have code. The code refuses batches of tokens, so these traders cannot split. */
  readonly delegated: ReadonlySet<Hex>
  /** Changes the code of one of them. */
  rearm(random: Random): Arming
  /** Makes the collateral hostile; call `disarm` after the batch. */
  arm(random: Random, traders: readonly { readonly address: Hex }[]): Arming[]
  disarm(): Arming[]
}

export async function makeHostility(
  world: World,
  model: Model,
  traders: readonly PrivateKeyAccount[],
): Promise<Hostility> {
  const { chain, owner, relayer, settlement, collateral } = world
  const receiver = await chain.deploy(owner, ours('test/HostileReceiver'), [])
  for (const trader of traders) {
    const wallet = chain.wallet(trader)
    const authorization = await wallet.signAuthorization({ contractAddress: receiver })
    const hash = await chain
      .wallet(relayer)
      .sendTransaction({ authorizationList: [authorization], to: relayer.address, gas: 200_000n })
    const { status } = await chain.publicClient.getTransactionReceipt({ hash })
    assert.equal(status, 'success')
  }
  // Replaces the collateral's code. The hostile code uses the storage layout of the honest token, and derives its
  // EIP-712 domain from its own address.
  const token = await chain.deploy(owner, ours('test/HostileCollateral'), [])
  const code = await chain.publicClient.getCode({ address: token })
  assert.ok(code)
  await chain.setCode(collateral.address, code)
  // The collateral and the hostile traders may call `settle` as operators. So only the guard against re-entry prevents
  // their callbacks from settling.
  await chain.send(owner, settlement, 'setOperator', [collateral.address, true])
  for (const { address } of traders) {
    await chain.send(owner, settlement, 'setOperator', [address, true])
  }
  model.feeReceiver = await chain.publicClient.readContract({
    address: token,
    abi: hostileCollateralAbi,
    functionName: 'FEE_RECEIVER',
  })
  const empty = encodeFunctionData({
    abi: settlement.abi,
    functionName: 'settle',
    args: [[], [], []],
  })
  const target = [settlement.address, empty] as const
  const armToken = (mode: number) =>
    encodeFunctionData({ abi: hostileCollateralAbi, functionName: 'arm', args: [mode, ...target] })
  const block = (account: Hex, value: boolean) =>
    encodeFunctionData({
      abi: hostileCollateralAbi,
      functionName: 'setBlocked',
      args: [account, value],
    })
  const to = collateral.address

  function rearmSignatures(random: Random, address: Hex): Arming {
    const [name, mode] = random.pick(SIGNATURE_MODES)
    if (name === 'acceptAll') model.credulous.add(address)
    else model.credulous.delete(address)
    const data = encodeFunctionData({
      abi: hostileReceiverAbi,
      functionName: 'armSignatures',
      args: [mode],
    })
    return { name: `signatures: ${name}`, to: address, data }
  }

  return {
    delegated: new Set(traders.map(({ address }) => address)),
    rearm(random) {
      const { address } = random.pick(traders)
      if (random.chance(0.3)) return rearmSignatures(random, address)
      const [name, mode] = random.pick(RECEIVER_MODES)
      if (WILLING.has(name)) model.unwilling.delete(address)
      else model.unwilling.add(address)
      const data = encodeFunctionData({
        abi: hostileReceiverAbi,
        functionName: 'arm',
        args: [mode, ...target],
      })
      return { name: `receiver: ${name}`, to: address, data }
    },
    arm(random, among) {
      if (random.chance(0.5)) {
        const { address } = random.pick(among)
        model.blocked.add(address)
        return [{ name: 'token: block', to, data: block(address, true) }]
      }
      const [name, mode] = random.pick(TOKEN_MODES)
      model.refusesAll = REFUSING.has(name)
      model.feePart = name === 'takeFee' ? FEE_PART : 0n
      model.isMute = name === 'returnNothing'
      return [{ name: `token: ${name}`, to, data: armToken(mode) }]
    },
    disarm() {
      const calls = [...model.blocked].map((account) => ({
        ...{ name: 'token: unblock', to },
        data: block(account, false),
      }))
      model.blocked.clear()
      model.refusesAll = false
      model.feePart = 0n
      model.isMute = false
      return [...calls, { name: 'token: honest', to, data: armToken(0) }]
    },
  }
}
