// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Nonces} from "@openzeppelin/contracts/utils/Nonces.sol";
import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";
import {CTHelpers} from "./CTHelpers.sol";
import {IConditionalTokens} from "./interfaces/IConditionalTokens.sol";
import {
    IOptimisticOracleV3,
    IOptimisticOracleV3CallbackRecipient
} from "./interfaces/IOptimisticOracleV3.sol";

/// One binary market. It is the oracle of its condition and reports the payouts once, as UMA's optimistic oracle
/// decides. Every market is a minimal clone of one implementation. The factory initialises it in the transaction that
/// creates it.
///
/// The steps of a resolution:
///   expired -> propose -> [window passes | dispute -> arbitration] -> settle
///   settled true  -> resolved: the condition's payouts are reported, holders redeem
///   settled false -> expired again: any account may propose again
///
/// No step needs the operator. Any account can propose with a bond, dispute at the oracle, and settle, here or at the
/// oracle. A quick market is different: the factory's operator resolves it from prices. If it is still unresolved
/// `QUICK_FALLBACK` after its end, any account may propose at the oracle. If the operator reports that the price
/// sources contradict each other, any account may propose at once.
contract Market is EIP712, Nonces, IOptimisticOracleV3CallbackRecipient {
    using SafeERC20 for IERC20;

    struct Assertion {
        bytes32 id;
        /// Who signed the proposal.
        address proposer;
        /// Account that paid the bond, and gets it back if the assertion holds.
        address asserter;
        bool outcome;
        bool disputed;
        uint64 assertionTime;
        uint64 expirationTime;
        uint256 bond;
    }

    /// An ERC-2612 permit of the collateral by `payer`, for `bond()`, with this market as the
    /// spender.
    struct BondPermit {
        address payer;
        uint256 deadline;
        uint8 v;
        bytes32 r;
        bytes32 s;
    }

    struct Terms {
        bytes32 questionId;
        address maker;
        uint64 expiration;
        /// Time from which an outcome may be proposed at the oracle.
        uint64 proposableFrom;
        bool quick;
        string question;
        string description;
    }

    uint8 private constant YES = 0;
    uint8 private constant NO = 1;
    uint256 private constant OUTCOMES = 2;
    /// If an assertion cannot be settled for this long after the end of its dispute window, a new proposal may replace
    /// it. The time is long, because arbitration takes days. It is limited, because the stablecoin may block the
    /// account that wins the bond, and the assertion can then never be settled. Without a limit, it would then lock the
    /// holders' money for ever.
    uint64 public constant ABANDON_AFTER = 14 days;

    bytes32 public constant PROPOSE_RESOLUTION_TYPEHASH = keccak256(
        "ProposeResolution(address proposer,bool outcome,uint256 nonce,uint256 deadline)"
    );
    bytes32 public constant SETTLE_MARKET_TYPEHASH = keccak256(
        "SettleMarket(address settler,uint8 winningOutcome,uint256 nonce,uint256 deadline)"
    );

    address public immutable factory;
    IERC20 public immutable collateral;
    IConditionalTokens public immutable conditionalTokens;
    IOptimisticOracleV3 public immutable oracle;
    /// The dispute window.
    uint64 public immutable liveness;
    uint256 private immutable _bondFloor;

    Terms private _terms;
    Assertion private _assertion;
    /// The condition id, which the exchange uses as the market's id.
    bytes32 public marketId;
    bool public resolved;
    uint8 private _winningOutcome;

    event ResolutionProposed(
        bytes32 indexed marketId,
        bytes32 indexed assertionId,
        address indexed proposer,
        address asserter,
        bool outcome,
        uint256 bond,
        uint64 assertionTime,
        uint64 expirationTime
    );
    event ResolutionDisputed(bytes32 indexed marketId, bytes32 indexed assertionId);
    event ResolutionOverturned(bytes32 indexed marketId, bytes32 indexed assertionId);
    /// A new proposal replaced an assertion that could not be settled within `ABANDON_AFTER` after its dispute window.
    event ResolutionAbandoned(bytes32 indexed marketId, bytes32 indexed assertionId);
    /// `assertionId` is zero when a quick market was resolved by price.
    event MarketResolved(
        bytes32 indexed marketId, bytes32 indexed assertionId, uint8 winningOutcome
    );
    event MarketSettled(bytes32 indexed marketId, address indexed settler, uint8 winningOutcome);
    /// The payouts could not be reported to the condition, for example for lack of gas. `reportPayouts` can report them
    /// later.
    event PayoutReportFailed(bytes32 indexed marketId);

    error NotFactory(address caller);
    error NotOracle(address caller);
    error AlreadyInitialized();
    error NotExpired(uint64 proposableFrom);
    error AlreadyResolved(uint8 winningOutcome);
    error NotResolved();
    error AssertionActive(bytes32 assertionId);
    error NoAssertion();
    error OutcomeNotAsserted(uint8 winningOutcome);
    error AssertionNotTrue(bytes32 assertionId);
    error NotQuick();
    error OpenToOracle();
    error NotPayer(address payer);
    error SignatureExpired(uint256 deadline);
    error SignerMismatch(address signer, address expected);

    constructor(
        IERC20 collateral_,
        IConditionalTokens conditionalTokens_,
        IOptimisticOracleV3 oracle_,
        uint64 liveness_,
        uint256 bondFloor_
    ) EIP712("SibylMarket", "1") {
        factory = msg.sender;
        collateral = collateral_;
        conditionalTokens = conditionalTokens_;
        oracle = oracle_;
        liveness = liveness_;
        _bondFloor = bondFloor_;
    }

    /// Initialises the clone. The factory calls this function once, right after it made the
    /// clone.
    function initialize(Terms calldata terms_) external {
        if (msg.sender != factory) revert NotFactory(msg.sender);
        if (marketId != bytes32(0)) revert AlreadyInitialized();
        _terms = terms_;
        marketId = CTHelpers.getConditionId(address(this), terms_.questionId, OUTCOMES);
        // Any account can compute the id beforehand and prepare the condition. Preparing it a second time would revert,
        // and so block the market.
        if (conditionalTokens.getOutcomeSlotCount(marketId) == 0) {
            conditionalTokens.prepareCondition(address(this), terms_.questionId, OUTCOMES);
        }
    }

    /// Proposes an outcome with the bond of the caller, who is the asserter.
    function propose(bool outcome) external returns (bytes32) {
        return _propose(msg.sender, msg.sender, outcome);
    }

    /// Proposes an outcome for `proposer`, who signed the proposal. The proposer or the caller pays the bond. The payer
    /// is the asserter, and gets the bond back if the assertion holds. The permit may be missing (`v` is zero), or fail
    /// because another account has already used it. The proposal succeeds anyway if the payer's allowance covers the
    /// bond.
    function proposeResolution(
        address proposer,
        bool outcome,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s,
        BondPermit calldata bondPermit
    ) external returns (bytes32) {
        bytes32 structHash = keccak256(
            abi.encode(
                PROPOSE_RESOLUTION_TYPEHASH, proposer, outcome, _useNonce(proposer), deadline
            )
        );
        _requireSigned(structHash, proposer, deadline, v, r, s);
        address payer = bondPermit.payer;
        if (payer != proposer && payer != msg.sender) revert NotPayer(payer);
        if (bondPermit.v != 0) _tryPermit(bondPermit);
        return _propose(proposer, payer, outcome);
    }

    /// Settles the assertion for `settler`, who signed the outcome that they expect to win.
    /// Reverts without any change if another outcome results.
    function settleMarket(
        address settler,
        uint8 winningOutcome_,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 structHash = keccak256(
            abi.encode(
                SETTLE_MARKET_TYPEHASH, settler, winningOutcome_, _useNonce(settler), deadline
            )
        );
        _requireSigned(structHash, settler, deadline, v, r, s);
        bytes32 assertionId = _settleableAssertion();
        if (winningOutcome_ != _code(_assertion.outcome)) {
            revert OutcomeNotAsserted(winningOutcome_);
        }
        oracle.settleAssertion(assertionId);
        if (!resolved) revert AssertionNotTrue(assertionId);
        emit MarketSettled(marketId, settler, winningOutcome_);
    }

    /// Settles the assertion, whatever its result. If the asserter lost a dispute, the market is
    /// open to proposals again; otherwise it is resolved.
    function settle() external {
        oracle.settleAssertion(_settleableAssertion());
        if (resolved) emit MarketSettled(marketId, msg.sender, _winningOutcome);
    }

    /// Reports the payouts of a resolved market again, if the report failed during the resolution.
    function reportPayouts() external {
        if (!resolved) revert NotResolved();
        conditionalTokens.reportPayouts(_terms.questionId, _payouts());
    }

    /// Resolves a quick market. The factory calls it for its operator, who has the prices.
    /// Reverts while an assertion is open, because then the oracle decides.
    function resolveQuick(uint8 winningOutcome_) external {
        if (msg.sender != factory) revert NotFactory(msg.sender);
        if (!_terms.quick) revert NotQuick();
        if (resolved) revert AlreadyResolved(_winningOutcome);
        if (_assertion.id != bytes32(0)) revert AssertionActive(_assertion.id);
        if (block.timestamp < _terms.expiration) revert NotExpired(_terms.expiration);
        if (_terms.proposableFrom == _terms.expiration) revert OpenToOracle();
        _resolve(winningOutcome_, bytes32(0));
    }

    /// Opens a quick market to the oracle. The factory calls it for its operator when the price
    /// sources contradict each other. From then on any account may propose an outcome, and prices
    /// can no longer resolve the market. The evidence becomes part of the description, and so of
    /// every claim at the oracle.
    function openToOracle(string calldata evidence) external {
        if (msg.sender != factory) revert NotFactory(msg.sender);
        if (!_terms.quick) revert NotQuick();
        if (resolved) revert AlreadyResolved(_winningOutcome);
        if (block.timestamp < _terms.expiration) revert NotExpired(_terms.expiration);
        if (_terms.proposableFrom == _terms.expiration) revert OpenToOracle();
        _terms.proposableFrom = _terms.expiration;
        _terms.description = string.concat(_terms.description, " ", evidence);
    }

    /// Applies the oracle's decision. Never reverts in a call from the oracle, because a revert would lock the bond.
    /// Any account can name this market as the callback recipient of its own assertion. So every assertion except this
    /// market's open one is ignored.
    function assertionResolvedCallback(bytes32 assertionId, bool assertedTruthfully) external {
        if (msg.sender != address(oracle)) revert NotOracle(msg.sender);
        if (resolved || assertionId == bytes32(0) || assertionId != _assertion.id) return;
        if (assertedTruthfully) {
            _resolve(_code(_assertion.outcome), assertionId);
        } else {
            delete _assertion;
            emit ResolutionOverturned(marketId, assertionId);
        }
    }

    function assertionDisputedCallback(bytes32 assertionId) external {
        if (msg.sender != address(oracle)) revert NotOracle(msg.sender);
        if (resolved || assertionId == bytes32(0) || assertionId != _assertion.id) return;
        _assertion.disputed = true;
        emit ResolutionDisputed(marketId, assertionId);
    }

    /// Returns the bond of a proposal: the configured bond, or the oracle's minimum if that is
    /// higher.
    function bond() public view returns (uint256) {
        uint256 minimum = oracle.getMinimumBond(address(collateral));
        return minimum > _bondFloor ? minimum : _bondFloor;
    }

    /// Returns the open assertion, or the assertion that resolved the market. If neither exists, the returned id is
    /// zero.
    function assertion() external view returns (Assertion memory) {
        return _assertion;
    }

    function terms() external view returns (Terms memory) {
        return _terms;
    }

    function winningOutcome() external view returns (uint8) {
        if (!resolved) revert NotResolved();
        return _winningOutcome;
    }

    /// Returns the claim that is asserted at the oracle, as text that a disputer can judge.
    function claim(bool outcome) public view returns (bytes memory) {
        return abi.encodePacked(
            "The Sibyl market ",
            Strings.toHexString(uint256(marketId), 32),
            " asks: ",
            _terms.question,
            " Description: ",
            _terms.description,
            " The market expired at Unix time ",
            Strings.toString(_terms.expiration),
            ". The answer is ",
            outcome ? "YES." : "NO."
        );
    }

    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    function _propose(address proposer, address payer, bool outcome)
        private
        returns (bytes32 assertionId)
    {
        _clearStaleAssertion();
        if (resolved) revert AlreadyResolved(_winningOutcome);
        if (_assertion.id != bytes32(0)) revert AssertionActive(_assertion.id);
        if (block.timestamp < _terms.proposableFrom) revert NotExpired(_terms.proposableFrom);

        uint256 amount = bond();
        collateral.safeTransferFrom(payer, address(this), amount);
        collateral.forceApprove(address(oracle), amount);
        assertionId = oracle.assertTruth(
            claim(outcome),
            payer,
            address(this),
            address(0),
            liveness,
            collateral,
            amount,
            oracle.defaultIdentifier(),
            marketId
        );

        uint64 time = uint64(block.timestamp);
        _assertion = Assertion({
            id: assertionId,
            proposer: proposer,
            asserter: payer,
            outcome: outcome,
            disputed: false,
            assertionTime: time,
            expirationTime: time + liveness,
            bond: amount
        });
        emit ResolutionProposed(
            marketId, assertionId, proposer, payer, outcome, amount, time, time + liveness
        );
    }

    /// Ends an assertion that is still open `ABANDON_AFTER` after the end of its dispute window. First tries to settle
    /// it, because the oracle may already have a result. If that fails, abandons the assertion.
    function _clearStaleAssertion() private {
        bytes32 stale = _assertion.id;
        if (resolved || stale == bytes32(0)) return;
        if (block.timestamp < _assertion.expirationTime + ABANDON_AFTER) return;
        try oracle.settleAssertion(stale) {}
        catch {
            delete _assertion;
            emit ResolutionAbandoned(marketId, stale);
        }
    }

    function _settleableAssertion() private view returns (bytes32) {
        if (resolved) revert AlreadyResolved(_winningOutcome);
        if (_assertion.id == bytes32(0)) revert NoAssertion();
        return _assertion.id;
    }

    function _resolve(uint8 outcome, bytes32 assertionId) private {
        resolved = true;
        _winningOutcome = outcome;
        emit MarketResolved(marketId, assertionId, outcome);
        try conditionalTokens.reportPayouts(_terms.questionId, _payouts()) {}
        catch {
            emit PayoutReportFailed(marketId);
        }
    }

    function _payouts() private view returns (uint256[] memory payouts) {
        payouts = new uint256[](OUTCOMES);
        payouts[_winningOutcome] = 1;
    }

    function _code(bool outcome) private pure returns (uint8) {
        return outcome ? YES : NO;
    }

    function _tryPermit(BondPermit calldata p) private {
        try IERC20Permit(address(collateral)).permit(
            p.payer, address(this), bond(), p.deadline, p.v, p.r, p.s
        ) {} catch {}
    }

    function _requireSigned(
        bytes32 structHash,
        address expected,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) private view {
        if (block.timestamp > deadline) revert SignatureExpired(deadline);
        (address signer,,) = ECDSA.tryRecover(_hashTypedDataV4(structHash), v, r, s);
        if (signer == address(0) || signer != expected) revert SignerMismatch(signer, expected);
    }
}
