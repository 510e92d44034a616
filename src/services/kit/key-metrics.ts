/**
 * Metrics of keys that pay for transactions: the ether that each key has left, and the ether that it has
 * spent. Operators can calculate from both metrics when the key will be empty.
 */

import { Counter, Gauge, type Registry } from 'prom-client'
import { WEI_PER_GWEI } from '#chain/sender/fees.ts'
import type { Log } from '#config/logging.ts'
import type { Address } from '#domain/ids.ts'

const GWEI_PER_ETHER = 1e9

type MeteredKey = {
  /** Name of the setting that contains the key. */
  readonly setting: string
  readonly chainId: number
  readonly address: Address
}

export type KeyMeters = {
  /** Records a balance that was read from the chain. Logs a warning once when the balance has become low. */
  weighed(key: MeteredKey, wei: bigint, isLow: boolean): void
}

export const etherOf = (wei: bigint): number => Number(wei / WEI_PER_GWEI) / GWEI_PER_ETHER

export function keyMeters(registry: Registry, log: Pick<Log, 'warn'>): KeyMeters {
  const registers = [registry]
  const labelNames = ['setting', 'key', 'chain']
  const balance = new Gauge({
    name: 'sibyl_key_balance_ether',
    help: 'Ether that a key has left for gas',
    ...{ labelNames, registers },
  })
  const low = new Gauge({
    name: 'sibyl_key_balance_low',
    help: '1 while a key has less than SIBYL_RELAYER_BALANCE_LOW_GWEI',
    ...{ labelNames, registers },
  })
  const spent = new Counter({
    name: 'sibyl_key_spent_ether_total',
    help: 'Ether by which the balance of a key fell between two reads',
    ...{ labelNames, registers },
  })
  const last = new Map<string, { readonly wei: bigint; readonly isLow: boolean }>()

  return {
    weighed({ setting, chainId, address }, wei, isLow) {
      const labels = { setting, key: address, chain: String(chainId) }
      const name = `${setting} ${address} ${chainId}`
      const before = last.get(name)
      const fell = before === undefined || wei > before.wei ? 0n : before.wei - wei
      balance.set(labels, etherOf(wei))
      low.set(labels, isLow ? 1 : 0)
      spent.inc(labels, etherOf(fell))
      last.set(name, { wei, isLow })
      if (isLow && before?.isLow !== true) {
        const fields = { setting, key: address, chainId, ether: etherOf(wei) }
        log.warn(fields, 'a key runs out of ether for gas')
      }
    },
  }
}
