// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {BoundedCalls} from "./BoundedCalls.sol";
import {CompleteSets} from "./CompleteSets.sol";
import {IConditionalTokens} from "./interfaces/IConditionalTokens.sol";
import {SettlementFunds} from "./SettlementFunds.sol";
import {
    BUY,
    Execution,
    Fault,
    Fill,
    MERGE,
    MINT,
    ONE,
    Order,
    OUTCOMES,
    Permit,
    Reason,
    SELL,
    SignedOrder,
    Standing,
    TRADE
} from "./SettlementTypes.sol";
import {SignedOrders} from "./SignedOrders.sol";

/// Settles matched trades between traders who signed orders, in batches. It never keeps their funds. In one call, the
/// collateral moves from buyer to seller and the outcome tokens from seller to buyer. If one cannot move, neither
/// moves. Two buyers of opposite outcomes trade by a mint: their collateral is split into both tokens. Two sellers of
/// opposite outcomes trade by a merge: their tokens become collateral again.
///
/// A batch lists each signed order once, and fills refer to orders by index. So an order that matches ten others is
/// sent, hashed and recovered once. Three rules shape the code:
///
/// 1. A fill is first checked without calls to other contracts. Then this contract calls itself with a fixed amount of
///    gas to execute the fill. So a malicious token or receiver can only revert its own fill, burn that gas, and return
///    at most one word.
/// 2. If a fill cannot be settled, its reason and the side at fault are reported, and the batch goes on. If too little
///    gas is left to give a fill its full amount, the whole batch reverts. So a fill is never reported as failed
///    because the operator sent too little gas.
/// 3. The operator only chooses what to match. A trader pays only with a signature, and only within the price, size and
///    time of the signed order. The signature is made by the trader's key or by a key that the trader appointed. It
///    also counts if the code of the trader's account accepts it (see `Delegates`).
///
/// Worked example: Ann signs BUY 10 YES at 0.60, Bob signs SELL 4 YES at 0.55. A fill of 4 at 0.55 moves 2.20 of
/// collateral from Ann to Bob and 4 YES from Bob to Ann. Ann's order has 6 left. Carol signs BUY 6 NO at 0.45. A mint
/// of 6 at 0.60 takes 3.60 from Ann and 2.40 from Carol, and splits them. Ann receives 6 YES, and Carol 6 NO.
contract Settlement is Ownable2Step, SignedOrders, CompleteSets, ReentrancyGuardTransient {
    /// Intermediate results of a batch: the hash and the `Standing` of each order, and the byte that `settle` returns
    /// for each fill.
    struct Batch {
        bytes32[] hashes;
        Standing[] standings;
        bytes verdicts;
    }

    /// Gas of the call that executes a fill. It includes `TRANSFER_GAS` for each of two transfers. The rest pays for
    /// the three storage slots that a first fill writes. An honest fill needs about half of each of these parts.
    uint256 public constant FILL_GAS = 300_000;
    /// Gas that must be left before a fill. It covers the fill's own call, and the 1/64 of the gas that the EVM does
    /// not pass on to a call. The rest is for finding and reporting why the fill failed.
    uint256 private constant GAS_BEFORE_FILL = (FILL_GAS * 64) / 63 + 150_000;
    uint256 private constant GAS_BEFORE_SET_FILL = (SET_FILL_GAS * 64) / 63 + 150_000;

    mapping(address account => bool) public isOperator;
    /// Settled trades that neither of their two orders records as `firstTrade`, because both orders already record
    /// another trade.
    mapping(bytes32 tradeId => bool) private _settledLater;

    event OperatorSet(address indexed account, bool allowed);
    event TradeSettled(
        bytes32 indexed tradeId,
        address indexed buyer,
        address indexed seller,
        bytes32 marketId,
        bytes32 buyHash,
        bytes32 sellHash,
        uint8 outcome,
        uint64 price,
        uint64 size,
        uint256 cost
    );
    event TradeRejected(
        bytes32 indexed tradeId,
        bytes32 indexed buyHash,
        bytes32 indexed sellHash,
        Fault fault,
        Reason reason
    );

    error NotOperator(address account);
    error OrderIndexOutOfRange(uint256 fill);
    error PermitOutOfOrder(uint256 permit);
    error OwnershipNotRenounceable();

    constructor(
        IERC20 collateral_,
        IConditionalTokens conditionalTokens_,
        address owner_,
        address operator_,
        uint64 settlementGrace_,
        uint64 cancelDelay_
    )
        Ownable(owner_)
        SignedOrders(settlementGrace_, cancelDelay_)
        SettlementFunds(collateral_, conditionalTokens_)
    {
        _setOperator(operator_, true);
    }

    /// Settles the fills in order, and reports those that cannot be settled. Permits must be in the order of their
    /// fills, and each is tried just before its fill. A permit may fail, for example because another account has
    /// submitted it already. The fill can still settle if the allowance is large enough without the permit.
    ///
    /// Returns a byte for each fill, for callers that simulate the transaction. The byte is zero if the fill settles.
    /// Otherwise its upper two bits are the `Fault` and its lower six bits the `Reason`. In a transaction, the events
    /// contain the same information.
    function settle(
        SignedOrder[] calldata orders,
        Fill[] calldata fills,
        Permit[] calldata permits
    ) external nonReentrant whenNotPaused returns (bytes memory verdicts) {
        if (!isOperator[msg.sender]) revert NotOperator(msg.sender);
        Batch memory batch;
        uint256 others;
        (batch.hashes, batch.standings, others) = _hashAndRecover(orders);
        if (others > 0) {
            uint256 gasNeeded = others * SIGNER_GAS + _gasOf(orders, fills, permits.length);
            _askDelegates(orders, batch.hashes, batch.standings, gasNeeded);
        }
        verdicts = new bytes(fills.length);
        batch.verdicts = verdicts;
        uint256 permit = 0;
        for (uint256 i = 0; i < fills.length; ++i) {
            if (fills[i].buy >= orders.length || fills[i].sell >= orders.length) {
                revert OrderIndexOutOfRange(i);
            }
            for (; permit < permits.length && permits[permit].fill == i; ++permit) {
                _tryPermit(permits[permit]);
            }
            _settleFill(i, fills[i], orders, batch);
        }
        if (permit != permits.length) revert PermitOutOfOrder(permit);
    }

    /// Executes the part of a fill that changes storage and moves funds. It is external only so
    /// that it has its own gas limit and can be reverted alone.
    function executeFill(Execution calldata e) external onlySelf {
        _record(e);

        if (!_moveCollateral(e.buyer, e.seller, e.cost)) revert CollateralMoveFailed();
        // This transfer comes last, because it may call the buyer. By then the buyer has paid.
        (bool moved,,) = BoundedCalls.call(
            address(conditionalTokens),
            TRANSFER_GAS,
            abi.encodeCall(
                IERC1155.safeTransferFrom, (e.seller, e.buyer, e.positionId, e.size, "")
            )
        );
        if (!moved) revert SharesMoveFailed();
        emit TradeSettled(
            e.tradeId,
            e.buyer,
            e.seller,
            e.marketId,
            e.buyHash,
            e.sellHash,
            e.outcome,
            e.price,
            e.size,
            e.cost
        );
    }

    /// Like `executeFill`, but for a mint or a merge.
    function executeSets(Execution calldata e, bool isMint) external onlySelf {
        _record(e);
        _moveSets(e, isMint);
        _emitSettled(e);
    }

    function setOperator(address account, bool allowed) external onlyOwner {
        _setOperator(account, allowed);
    }

    /// An operator may stop settlement in an emergency; only the owner may resume it.
    function pause() external {
        if (msg.sender != owner() && !isOperator[msg.sender]) revert NotOperator(msg.sender);
        _pause();
    }

    function unpause() external onlyOwner {
        _unpause();
    }

    /// Always reverts: without an owner, a rogue operator could not be removed.
    function renounceOwnership() public view override onlyOwner {
        revert OwnershipNotRenounceable();
    }

    function tradeIdOf(
        bytes32 marketId,
        uint64 seq,
        uint32 fillIndex,
        bytes32 buyHash,
        bytes32 sellHash,
        uint64 price,
        uint64 size
    ) public view returns (bytes32) {
        return keccak256(
            abi.encode(
                block.chainid,
                address(this),
                marketId,
                seq,
                fillIndex,
                buyHash,
                sellHash,
                price,
                size
            )
        );
    }

    /// Returns whether a trade has settled. `buyHash` and `sellHash` are the hashes of its two
    /// orders.
    function isSettled(bytes32 tradeId, bytes32 buyHash, bytes32 sellHash)
        public
        view
        returns (bool)
    {
        return _isSettled(tradeId, _orders[buyHash], _orders[sellHash]);
    }

    /// Returns the cost of a fill: price × size, rounded up to the next unit of collateral.
    function costOf(uint64 price, uint64 size) public pure returns (uint256) {
        return (uint256(price) * size + ONE - 1) / ONE;
    }

    function _settleFill(
        uint256 index,
        Fill calldata fill,
        SignedOrder[] calldata orders,
        Batch memory batch
    ) private {
        Order calldata buy = orders[fill.buy].order;
        Order calldata sell = orders[fill.sell].order;
        Execution memory e;
        e.buyHash = batch.hashes[fill.buy];
        e.sellHash = batch.hashes[fill.sell];
        e.marketId = buy.marketId;
        e.price = fill.price;
        e.size = fill.size;
        e.tradeId = tradeIdOf(
            e.marketId, fill.seq, fill.fillIndex, e.buyHash, e.sellHash, e.price, e.size
        );

        Fault fault;
        Reason reason;
        uint256 kind;
        if (isSettled(e.tradeId, e.buyHash, e.sellHash)) reason = Reason.AlreadySettled;
        else (reason, kind) = _checkMatch(e, buy, sell);
        if (reason == Reason.None) {
            (fault, reason) = _checkOrders(
                e, buy, sell, batch.standings[fill.buy], batch.standings[fill.sell]
            );
        }
        if (reason == Reason.None) {
            e.buyer = buy.trader;
            e.seller = sell.trader;
            e.cost = costOf(e.price, e.size);
            (fault, reason) = _execute(index, e, kind);
            if (reason == Reason.None) return;
        }
        emit TradeRejected(e.tradeId, e.buyHash, e.sellHash, fault, reason);
        batch.verdicts[index] = bytes1((uint8(fault) << 6) | uint8(reason));
    }

    /// Moves the funds of a fill that passed every check, or finds out why they do not move.
    function _execute(uint256 index, Execution memory e, uint256 kind)
        private
        returns (Fault, Reason)
    {
        e.positionId = _positionId(e.marketId, e.outcome);
        bool done;
        uint256 word;
        if (kind == TRADE) {
            if (gasleft() < GAS_BEFORE_FILL) revert TooLittleGas(index);
            (done,, word) =
                BoundedCalls.call(address(this), FILL_GAS, abi.encodeCall(this.executeFill, (e)));
        } else {
            // Compute and cache the token id of the other outcome now, so that the inner call does
            // not spend its gas on it.
            _positionId(e.marketId, 1 - e.outcome);
            if (gasleft() < GAS_BEFORE_SET_FILL) revert TooLittleGas(index);
            (done,, word) = BoundedCalls.call(
                address(this),
                SET_FILL_GAS,
                abi.encodeCall(this.executeSets, (e, kind == MINT))
            );
        }
        if (done) return (Fault.None, Reason.None);
        return _diagnose(e, kind, bytes4(bytes32(word)));
    }

    /// Checks that the two orders and the fill match, and returns the kind of the fill. A
    /// mismatch is the operator's fault, not the traders'.
    function _checkMatch(Execution memory e, Order calldata buy, Order calldata sell)
        private
        pure
        returns (Reason, uint256 kind)
    {
        {
            (uint8 side, uint8 otherSide) = (buy.side, sell.side);
            if (side == BUY && otherSide == SELL) kind = TRADE;
            else if (side == BUY && otherSide == BUY) kind = MINT;
            else if (side == SELL && otherSide == SELL) kind = MERGE;
            else return (Reason.WrongSide, kind);
        }
        if (buy.marketId != sell.marketId) return (Reason.MarketMismatch, kind);
        (uint8 outcome, uint8 otherOutcome) = (buy.outcome, sell.outcome);
        if ((outcome == otherOutcome) != (kind == TRADE) || (outcome | otherOutcome) >= OUTCOMES) {
            // Two buys or two sells can only settle if their outcomes are opposite.
            bool isSide = kind != TRADE && outcome == otherOutcome;
            return (isSide ? Reason.WrongSide : Reason.OutcomeMismatch, kind);
        }
        e.outcome = kind == MERGE ? otherOutcome : outcome;
        uint256 price = e.price;
        if (e.size == 0) return (Reason.SizeZero, kind);
        if (price == 0 || price >= ONE) return (Reason.PriceOutOfRange, kind);
        // In a mint or a merge, one order stands in for an order of the opposite side (see `Fill`). Its limit is 1 − q,
        // where q is its signed price. The code compares `price` + q with 1, because q may exceed 1, and 1 − q would
        // then underflow.
        if (kind == MERGE ? price + buy.price > ONE : price > buy.price) {
            return (Reason.PriceAboveBuyLimit, kind);
        }
        if (kind == MINT ? price + sell.price < ONE : price < sell.price) {
            return (Reason.PriceBelowSellLimit, kind);
        }
        return (Reason.None, kind);
    }

    /// Returns `None` if each order is signed, not expired, not cancelled, and has room for the
    /// fill. Otherwise returns the fault and the reason.
    function _checkOrders(
        Execution memory e,
        Order calldata buy,
        Order calldata sell,
        Standing buyStanding,
        Standing sellStanding
    ) private view returns (Fault fault, Reason) {
        fault = _fault(buyStanding == Standing.Unsigned, sellStanding == Standing.Unsigned);
        if (fault != Fault.None) return (fault, Reason.InvalidSignature);

        fault = _fault(buy.makerFeeRecipient != address(0), sell.makerFeeRecipient != address(0));
        if (fault != Fault.None) return (fault, Reason.FeeRecipientNotZero);

        fault = _fault(_isExpired(buy), _isExpired(sell));
        if (fault != Fault.None) return (fault, Reason.OrderExpired);

        OrderState memory buyState = _orders[e.buyHash];
        OrderState memory sellState = _orders[e.sellHash];
        fault = _fault(
            buyStanding == Standing.Void || _isCancelled(buyState),
            sellStanding == Standing.Void || _isCancelled(sellState)
        );
        if (fault != Fault.None) return (fault, Reason.OrderCancelled);

        fault = _fault(
            uint256(buyState.filled) + e.size > buy.size,
            uint256(sellState.filled) + e.size > sell.size
        );
        if (fault != Fault.None) return (fault, Reason.OrderOverfilled);
        return (Fault.None, Reason.None);
    }

    /// Records how much of each order is filled, and that the trade has settled.
    function _record(Execution calldata e) private {
        OrderState memory buyState = _orders[e.buyHash];
        OrderState memory sellState = _orders[e.sellHash];
        buyState.filled += e.size;
        sellState.filled += e.size;
        uint152 mark = _mark(e.tradeId);
        if (sellState.firstTrade == 0) sellState.firstTrade = mark;
        else if (buyState.firstTrade == 0) buyState.firstTrade = mark;
        else _settledLater[e.tradeId] = true;
        _orders[e.buyHash] = buyState;
        _orders[e.sellHash] = sellState;
    }

    /// Returns whether the trade is in one of the three places where `_record` may have stored
    /// it.
    function _isSettled(bytes32 tradeId, OrderState memory buyState, OrderState memory sellState)
        private
        view
        returns (bool)
    {
        uint152 mark = _mark(tradeId);
        if (sellState.firstTrade == mark || buyState.firstTrade == mark) return true;
        if (sellState.firstTrade == 0 || buyState.firstTrade == 0) return false;
        return _settledLater[tradeId];
    }

    /// Finds out why the funds of a fill could not be moved. The fill has been reverted, so the
    /// state is the same as before the fill. Runs only after a failure, so that a successful fill
    /// does not pay for it.
    function _diagnose(Execution memory e, uint256 kind, bytes4 stage)
        private
        returns (Fault, Reason)
    {
        address tokens = address(conditionalTokens);
        if (
            BoundedCalls.read(tokens, abi.encodeCall(conditionalTokens.getOutcomeSlotCount, (e.marketId))) == 0
        ) return (Fault.None, Reason.MarketUnknown);

        Reason buyer = kind == MERGE
            ? _sharesShortage(e.buyer, _positionId(e.marketId, 1 - e.outcome), e.size)
            : _collateralShortage(e.buyer, e.cost);
        // If one trader is on both sides of a mint, this trader pays both parts.
        Reason seller = kind == MINT
            ? _collateralShortage(e.seller, e.buyer == e.seller ? e.size : e.size - e.cost)
            : _sharesShortage(e.seller, e.positionId, e.size);
        if (buyer != Reason.None && seller != Reason.None) {
            return (Fault.Both, Reason.BothUnfunded);
        }
        if (buyer != Reason.None) return (Fault.Buyer, buyer);
        if (seller != Reason.None) return (Fault.Seller, seller);

        // Both traders have the funds and approvals. If the transfer of tokens failed, the code
        // of the receiver's account refused them.
        if (stage == SharesMoveFailed.selector) return (Fault.Buyer, Reason.SharesRefused);
        if (stage == SellerSharesMoveFailed.selector) return (Fault.Seller, Reason.SharesRefused);
        // The outcome tokens were not refused, so the collateral may have refused to move for one of the traders. If it
        // refuses both traders or neither, no trader is at fault.
        bool buyerRefused = !_probe(e.buyer);
        bool sellerRefused = !_probe(e.seller);
        if (buyerRefused == sellerRefused) return (Fault.None, Reason.CollateralRefused);
        return (buyerRefused ? Fault.Buyer : Fault.Seller, Reason.CollateralRefused);
    }

    /// Returns the maximum gas that a batch's permits and fills need, whatever their traders do.
    function _gasOf(SignedOrder[] calldata orders, Fill[] calldata fills, uint256 permits)
        private
        pure
        returns (uint256 gas)
    {
        gas = 150_000 + permits * ((PERMIT_GAS * 64) / 63 + 5_000);
        for (uint256 i = 0; i < fills.length; ++i) {
            if (fills[i].buy >= orders.length || fills[i].sell >= orders.length) {
                revert OrderIndexOutOfRange(i);
            }
            bool isSets = orders[fills[i].buy].order.side == orders[fills[i].sell].order.side;
            gas += (isSets ? SET_FILL_GAS : FILL_GAS) + 50_000;
        }
    }

    function _emitSettled(Execution calldata e) private {
        emit TradeSettled(
            e.tradeId,
            e.buyer,
            e.seller,
            e.marketId,
            e.buyHash,
            e.sellHash,
            e.outcome,
            e.price,
            e.size,
            e.cost
        );
    }

    function _mark(bytes32 tradeId) private pure returns (uint152) {
        return uint152(uint256(tradeId));
    }

    function _fault(bool buyer, bool seller) private pure returns (Fault) {
        if (buyer) return seller ? Fault.Both : Fault.Buyer;
        return seller ? Fault.Seller : Fault.None;
    }

    function _setOperator(address account, bool allowed) private {
        isOperator[account] = allowed;
        emit OperatorSet(account, allowed);
    }
}
