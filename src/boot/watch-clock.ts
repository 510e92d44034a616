/**
 * Runs the guard of the wall clock. Checks the clock once a second. After a jump of the clock, reads the time of a
 * chain to confirm the new time. Logs alarms.
 */

import { Gauge, type Registry } from 'prom-client'
import type { Settings } from '#config/settings-schema.ts'
import { aheadMsOf, type ClockMemory, machine } from '#runtime/clock.ts'
import { type ClockUpdate, guardClock } from '#runtime/clock-guard.ts'
import type { SupervisorLog } from '#runtime/supervised.ts'

const LOOK_MS = 1_000
const ASK_MS = 5_000

/**
 * Starts the guard and returns a function that ends it. `chains` is a function, because the chains become known only
 * after the guard has started.
 */
export function watchClock(ports: {
  readonly memory: ClockMemory
  readonly rules: Settings['clock']
  readonly chains: () => Settings['chains']
  readonly log: SupervisorLog
  readonly registry: Registry
}): () => void {
  const { memory, rules, log } = ports
  if (rules.jumpSeconds === 0) return () => {}
  const guard = guardClock(memory, {
    boundMs: rules.jumpSeconds * 1_000,
    confirmMs: rules.confirmSeconds * 1_000,
    machine,
    say,
  })
  new Gauge({
    name: 'sibyl_clock_jumped',
    help: '1 while the exchange ignores a jump of the clock of this machine, otherwise 0',
    registers: [ports.registry],
    collect() {
      this.set(guard.isJumped ? 1 : 0)
    },
  })

  function say(update: ClockUpdate): void {
    switch (update.type) {
      case 'jumped': {
        const within = `${rules.confirmSeconds} seconds`
        const what = `the clock has jumped: the exchange ignores the jump until a chain confirms the new time, the clock runs evenly for ${within}, or the exchange is restarted`
        log.error({ byMs: Math.round(update.byMs) }, what)
        return
      }
      case 'back':
        log.warn({}, 'the clock is back at the expected time')
        return
      case 'confirmed':
        log.warn(
          { byMs: Math.round(update.byMs), by: update.by },
          'the new time of the clock is accepted',
        )
    }
  }

  let askedMs = 0
  async function askChain(): Promise<void> {
    const chain = ports.chains().find(({ rpcUrls }) => rpcUrls.length > 0)
    if (chain === undefined) return
    const { chainId, rpcUrls } = chain
    const { makeChainClient } = await import('#chain/clients.ts')
    const client = makeChainClient({ chainId, rpcUrls, onError: () => {} })
    // Ignore an unreachable chain: it gives no evidence about the time.
    const block = await client.viem.getBlock({ blockTag: 'latest' }).catch(() => undefined)
    if (block !== undefined) guard.received(Number(block.timestamp) * 1_000 - aheadMsOf(memory))
  }

  const timer = setInterval(() => {
    guard.look()
    const nowMs = machine.monotonicMs()
    if (!guard.isJumped || nowMs - askedMs < ASK_MS) return
    askedMs = nowMs
    void askChain()
  }, LOOK_MS)
  timer.unref()
  return () => clearInterval(timer)
}
