/**
 * Watches whether a key of the exchange can be used on a chain: the key needs its role in the contract, and ether for
 * transactions. If the role or ether is missing, the thread that uses the key is not ready and reports the reason. The
 * check is repeated, so no restart is needed after the operator has granted the role or sent ether. While the chain
 * does not answer, the last result remains valid.
 */

import { WEI_PER_GWEI } from '#chain/sender/fees.ts'
import type { Log } from '#config/logging.ts'
import type { Settings } from '#config/settings-schema.ts'
import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { etherOf, type KeyMeters } from './key-metrics.ts'
import type { ThreadContext } from './kit.ts'

type KeyWatch = {
  /** Returns the reason why the key cannot be used; empty if it can. */
  why(): string
  look(): Promise<void>
}

type WatchedKey = {
  /** Name of the setting that contains the key. */
  readonly setting: string
  readonly chainId: number
  readonly address: Address
  readonly balanceWei: () => Promise<bigint>
  /** The contract in which the key needs a role, and the check of that role; absent for keys without a role. */
  readonly role?: { readonly contract: string; readonly isHeld: () => Promise<boolean> }
}

/** Checks the key immediately, and then at the interval at which the relayer reads its balances. */
export function startKeyWatch(
  kit: Pick<ThreadContext, 'log' | 'keys' | 'every'>,
  { balanceMinGwei, balanceLowGwei, balanceEveryMs }: Settings['relayer'],
  key: WatchedKey,
): KeyWatch {
  const watch = makeKeyWatch(kit, { balanceMinGwei, balanceLowGwei }, key)
  void watch.look()
  kit.every(balanceEveryMs, () => void watch.look())
  return watch
}

export function makeKeyWatch(
  ports: { readonly log: Pick<Log, 'info' | 'warn' | 'debug'>; readonly keys: KeyMeters },
  {
    balanceMinGwei,
    balanceLowGwei,
  }: Pick<Settings['relayer'], 'balanceMinGwei' | 'balanceLowGwei'>,
  key: WatchedKey,
): KeyWatch {
  const { log, keys } = ports
  const { setting, chainId, address } = key
  let trouble: string | undefined
  let looking = false

  async function troubleOf(): Promise<string> {
    const wei = await key.balanceWei()
    keys.weighed(key, wei, wei < BigInt(balanceLowGwei) * WEI_PER_GWEI)
    const named = `${setting} is ${address}, which`
    if (key.role !== undefined && !(await key.role.isHeld())) {
      return `${named} is not an operator of the ${key.role.contract} on chain ${chainId}: give it the role`
    }
    const min = BigInt(balanceMinGwei) * WEI_PER_GWEI
    if (wei >= min) return ''
    return (
      `${named} has ${etherOf(wei)} ether on chain ${chainId}, less than ` +
      `SIBYL_RELAYER_BALANCE_MIN_GWEI (${etherOf(min)} ether): send ether to this address`
    )
  }

  return {
    why: () => trouble ?? '',
    async look() {
      if (looking) return
      looking = true
      try {
        const found = await troubleOf()
        if (found === trouble) return
        const fields = { setting, key: address, chainId }
        if (found !== '') log.warn({ ...fields, why: found }, 'a key cannot be used')
        else log.info(fields, 'a key can be used')
        trouble = found
      } catch (error) {
        if (!(error instanceof Fault)) throw error
        log.debug(
          { setting, chainId, why: error.message },
          'the chain could not confirm whether the key of this setting is usable',
        )
      } finally {
        looking = false
      }
    },
  }
}
