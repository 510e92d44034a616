/**
 * Opens the chain of a data folder. If the chain of the previous start still runs, and its first block is the block
 * recorded in the data folder, it is reused. Otherwise a fresh chain starts. After an exchange was killed, its chain
 * keeps running for a limited time. If the chain of another data folder uses the port, that chain is left alone, and
 * the start fails.
 */

import { resolve } from 'node:path'
import {
  ChainStartError,
  chainUrl,
  endChain,
  type Lease,
  leaseChain,
  probeChain,
  startChainProcess,
} from './chain-process.ts'
import { CHAIN_LOG, type RecordedChain, readChainRecord, writeChainRecord } from './chain-record.ts'
import { deployDevnet, devnetSettings, seedDevnet } from './seed.ts'

type DevnetOptions = {
  readonly dataDir: string
  /** Port of a fresh chain; 0 picks a free port. */
  readonly port: number
  readonly chainId: number
  readonly lingerMs: number
  readonly disputeSeconds: number
  /**
   * Called with the number of seconds by which the chain's clock is ahead of this machine's: immediately, and
   * after each move of the chain's clock.
   */
  readonly onClock: (aheadSeconds: number) => void
  readonly onLost: () => void
  /** Called with a description of the next step. */
  readonly step?: (what: string) => void
  /** Moves data of another chain aside. */
  readonly clearData: () => void
}

export type Devnet = RecordedChain & {
  /** True if the chain was started by an earlier run. */
  readonly again: boolean
  /** Releases the lease; the chain then waits for the next start. */
  release(): void
  /** Ends the chain. */
  end(): Promise<void>
}

/**
 * Maximum time, in milliseconds, to wait until another exchange releases its lease on the recorded chain. If that
 * exchange was killed, its lease ends within milliseconds.
 */
const LET_GO_MS = 3_000
const LET_GO_POLL_MS = 50
/** Maximum number of unanswered attempts to identify the recorded chain. After that, the chain counts as gone. */
const SILENCES_MAX = 4

export async function openDevnet(options: DevnetOptions): Promise<Devnet> {
  options.step?.('looking for the local chain of the previous run')
  const recorded = readChainRecord(options.dataDir)?.[options.chainId]
  if (recorded !== undefined && (await isFree(recorded, options.dataDir))) {
    return devnetOf(recorded, true, await leaseChain(recorded.url, options))
  }
  await clearPort(options)
  options.clearData()
  return startDevnet(options)
}

/**
 * Returns whether the chain recorded in the data folder runs without a lease. Throws if another exchange
 * still holds a lease on it after `LET_GO_MS`.
 */
async function isFree(recorded: RecordedChain, dataDir: string): Promise<boolean> {
  const giveUpMs = Date.now() + LET_GO_MS
  for (let silences = 0; ; ) {
    const probe = await probeChain(recorded.url)
    if (probe.found === 'silent' && ++silences < SILENCES_MAX) continue
    if (probe.found !== 'chain' || probe.identity.genesis !== recorded.genesis) return false
    if (probe.identity.leases === 0) return true
    if (Date.now() > giveUpMs) {
      throw new ChainStartError(
        `the data in ${dataDir} is in use: another exchange uses the local chain of this data at ${recorded.url}; stop that exchange, or set SIBYL_DATA_DIR to another folder`,
      )
    }
    await new Promise((wake) => setTimeout(wake, LET_GO_POLL_MS))
  }
}

/**
 * Makes the port available: ends an unused chain of the same data folder, and throws if another process uses
 * the port.
 */
async function clearPort({ port, dataDir }: DevnetOptions): Promise<void> {
  if (port === 0) return
  const elsewhere =
    'set SIBYL_DEVNET_PORT to use another port, or SIBYL_CHAIN_RPC to use another chain'
  const probe = await probeChain(chainUrl(port))
  if (probe.found === 'nothing') return
  if (probe.found !== 'chain') {
    throw new ChainStartError(`port ${port} of the local chain is in use; ${elsewhere}`)
  }
  const { owner, leases, endsInMs } = probe.identity
  if (leases > 0) {
    const whose =
      owner === '' ? 'another running process' : `a running exchange with its data in ${owner}`
    throw new ChainStartError(`port ${port} is used by the local chain of ${whose}; ${elsewhere}`)
  }
  if (owner !== resolve(dataDir)) {
    const seconds = Math.ceil((endsInMs ?? 0) / 1_000)
    throw new ChainStartError(
      `port ${port} is used by the local chain of an exchange that was killed and has its data in ${owner}; ` +
        `wait ${seconds} s until that chain ends by itself, or ${elsewhere}`,
    )
  }
  // The chain at this port was started for this data folder, but the folder does not record it, so no exchange can use
  // it.
  await endChain(chainUrl(port))
}

async function startDevnet(options: DevnetOptions): Promise<Devnet> {
  const { dataDir, port, chainId, lingerMs } = options
  const owner = resolve(dataDir)
  const logFile = resolve(dataDir, CHAIN_LOG)
  options.step?.('starting a local chain')
  const { url, genesis } = await startChainProcess({ port, chainId, lingerMs, owner, logFile })
  const lease = await leaseChain(url, options)
  try {
    options.step?.('deploying the contracts')
    const terms = { disputeSeconds: BigInt(options.disputeSeconds) }
    const deployment = await deployDevnet(url, devnetSettings(terms))
    options.step?.('creating markets and funding the demo traders')
    await seedDevnet(url, deployment)
    const recorded = {
      genesis,
      url,
      contracts: {
        settlement: deployment.settlement.address,
        conditionalTokens: deployment.conditionalTokens.address,
        stablecoin: deployment.collateral.address,
        marketFactory: deployment.factory.address,
        multicall: deployment.multicall.address,
        oracle: deployment.oracle.address,
      },
    }
    // Write the record last, so that a later start never reuses an incomplete chain.
    writeChainRecord(dataDir, { [chainId]: recorded })
    return devnetOf(recorded, false, lease)
  } catch (error) {
    lease.release()
    await endChain(url)
    throw error
  }
}

function devnetOf(recorded: RecordedChain, again: boolean, lease: Lease): Devnet {
  return {
    ...recorded,
    again,
    release: () => lease.release(),
    async end() {
      lease.release()
      await endChain(recorded.url)
    },
  }
}
