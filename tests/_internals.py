"""The internal names that tests use, and the module that holds each.

Tests import the public names of `shiftproof` and of its packages, and everything else from here:
`from _internals import RunFolder`.  A module that moves or merges changes this table only.  A name
is looked up when it is first used, so a test imports no more than it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Module under `shiftproof` → the names that tests import from it.
_NAMES = {
    "api.diagnose": "ShiftReport",
    "api.held_out": "held_out_in",
    "api.held_out_runs": "held_out_runs training_results",
    "api.parallel": "DONE",
    "api.report": "Report write_records",
    "api.settings": "TrainEachSettings TrainSettings",
    "api.study_baselines": "stored_baselines",
    "api.study_evidence": "IMAGES_A_DOMAIN _some_images confident_errors",
    "api.study_folder": "inputs_of stored_diagnosis",
    "api.train_each": "_name",
    "api.trained_run": "TrainedRun",
    "cli": "app",
    "cli.messages": "OTHER_NAMES in_options running",
    "cli.progress": "ProgressBar",
    "cli.study_progress": "StudyProgress",
    "core.errors": "CheckpointError DataError InvalidValue RunConflict UnknownName",
    "core.files": (
        "file_hash gzip_lines is_temporary locked_folder read_json read_regular "
        "write_atomically write_json"
    ),
    "core.json_values": "json_lines",
    "core.migrations": "current",
    "core.registry": "Registry",
    "core.seeding": "Stream seed_hash stream_seed torch_generator",
    "core.settings": (
        "Settings flag joined keywords names number one_of pairs path same setting whole"
    ),
    "core.space": "Distribution Regime draw resolve specs",
    "core.tensors": "LateBuffers",
    "core.text": "letters_of",
    "core.types": "SQUARED",
    "data.arrays": "from_arrays",
    "data.base": "silent",
    "data.datasets.colored_mnist": "AGREEMENT ColoredMNIST ColoredMNISTForIRM",
    "data.datasets.domainbed": "DOMAIN_NET_COUNTS DomainNet OfficeHome PACS",
    "data.datasets.image_benchmark": "ImageBenchmark",
    "data.datasets.mnist": "load_mnist",
    "data.datasets.rotated_mnist": "ANGLES RotatedMNIST rotate",
    "data.datasets.spawrious": "BREEDS EACH GROUPS SHARED",
    "data.datasets.spirals": "SIGNATURE",
    "data.datasets.terra_incognita": "TerraIncognita",
    "data.images.files": (
        "ImageFiles ImageView LabelledPath evaluation_view image_dataset random_crop "
        "to_pixels training_view"
    ),
    "data.images.findings": "EXAMPLES ImageCheck LabelledImage check_images",
    "data.images.folder": "find_images",
    "data.images.index": "INDEX ImageRecord MOST_PIXELS THUMBNAIL_SIDE decode scan thumbnail",
    "data.images.near_identical": "near_identical",
    "data.input_forms": "ImageForm TableForm TensorForm as_ready form_of",
    "data.library.base": (
        "Found completeness_notes expected_counts folder_of library_datasets local_copy "
        "shortages surplus"
    ),
    "data.library.download": "BY_HAND fetch fetch_any",
    "data.library.importing": "import_dataset pull_dataset remove_dataset",
    "data.library.unpack": "extract",
    "data.load": "DataRequest",
    "data.prefetch": "prefetch",
    "data.sample_request": "SampleRequest",
    "data.sampling": "BatchSampler",
    "data.settings": "DataSettings",
    "data.splits": "Split split_domain",
    "data.tables.array_files": "array_samples read_arrays",
    "data.tables.cell_types": "Cells arrow_array cells_of text_of",
    "data.tables.domain_column": "domain_series",
    "data.tables.label_kind": "label_kind",
    "data.tables.preprocessing": "Column Columns FEWEST_ROWS FittedColumns unseen_notes",
    "data.tables.read": "as_table read_table",
    "data.within_domain": "categorical_columns standardized standardized_by_site within_domains",
    "inference.adaptation.label_shift": (
        "Adapted LabelShift NO_ERROR Shares adapted checked_adapt class_shares em_shares "
        "fit_calibration label_shift log_ratio reweighted sampling_variances"
    ),
    "inference.adaptation.recalibrate": "Update closed_test recalibrated",
    "inference.conformal": "HalfWidths LEVELS domain_sets half_width score_threshold",
    "inference.expected": "Expected sentences",
    "inference.export": "DESCRIPTION description to_onnx",
    "inference.export_tables": "OPSETS Graph add_columns add_ensemble",
    "inference.metrics": "compare",
    "inference.model_file": "HEADER MODEL model_bytes stored_header",
    "inference.model_of_run": "trained_model",
    "inference.predictor": "Predictor standardized_features",
    "inference.reliability": "errors_of number_bins reliability",
    "inference.temperature": "calibrated_outputs held_out_temperature",
    "inference.typicality": "FAR FEWEST_IN_A_MEAN Typicality",
    "information.base": "information",
    "information.classifiers": "Posterior _concept _covariate mixture",
    "learners.algorithms.adam": "Adam",
    "learners.algorithms.adrmx": "ADRMX supervised_contrast",
    "learners.algorithms.andmask": "ANDMask and_mask masked_mean sign_agreement",
    "learners.algorithms.arm": "ARM",
    "learners.algorithms.cad": "CAD domain_bottleneck",
    "learners.algorithms.causirl": "CausIRLCORAL",
    "learners.algorithms.cdann": "CDANN class_balancing_weights",
    "learners.algorithms.condcad": "CondCAD",
    "learners.algorithms.dann": "DANN input_gradient_penalty",
    "learners.algorithms.discriminator": "Discriminator",
    "learners.algorithms.eqrm": "EQRM kernel_quantile",
    "learners.algorithms.erm": "ERM",
    "learners.algorithms.erm_plus_plus": "ERMPlusPlus",
    "learners.algorithms.fish": "Fish",
    "learners.algorithms.groupdro": "GroupDRO",
    "learners.algorithms.idm": "IDM",
    "learners.algorithms.idm_auto": (
        "SLOWER Calibration Slopes better_than_shares calibrate calibration slopes_of"
    ),
    "learners.algorithms.lp_ft": "LPFT",
    "learners.algorithms.miro": "MIRO layers_of listening",
    "learners.algorithms.mixup": "Mixup ring_pairs",
    "learners.algorithms.mldg": "MLDG",
    "learners.algorithms.mtl": "MTL",
    "learners.algorithms.rdm": "RDM worst_against_all",
    "learners.algorithms.rdm_pdm": "RDMPDM",
    "learners.algorithms.rsc": "RSC label_score percentile spared_features spared_samples",
    "learners.algorithms.sagm": "SAGM",
    "learners.algorithms.sagnet": (
        "EPSILON SagNet content_of mix_style style_of swap_content uniform_risk"
    ),
    "learners.algorithms.sam": "SAM",
    "learners.algorithms.sandmask": "SANDMask sand_mask",
    "learners.algorithms.selfreg": "SelfReg dissimilarity same_class_partners",
    "learners.algorithms.transfer": "Transfer onto_ball",
    "learners.algorithms.trm": "TRM neumann_inverse",
    "learners.algorithms.two_stage": "PENALTIES",
    "learners.algorithms.urm": "URM",
    "learners.algorithms.wise_ft": "WiSEFT",
    "learners.best": "PRIOR planned portfolio shrunk_weights",
    "learners.boosting": "BoostingCandidate FEWEST_BINS ROWS_A_BIN ROWS_A_LEAF",
    "learners.candidate": "Judged Size held_out_scores judge mean_loss single size_of",
    "learners.criterion": "LogLoss criterion_of fit_temperature tempered",
    "learners.encoding": "Encoder ranks_among smooth_quantiles weighted_median",
    "learners.ensemble": "Ensemble Member",
    "learners.estimator": "EstimatorModel dumped identified loaded seeded weights_for",
    "learners.exact": "Exact",
    "learners.forest": "ForestCandidate",
    "learners.linear": "LinearCandidate",
    "learners.logistic": "logistic_path probabilities",
    "learners.ridge": "ridge_path ridge_paths",
    "learners.samples": "Samples held_out_folds",
    "learners.table_models": "LinearModel TreeModel boosting_model forest_model",
    "matching._sort": "sort_rows sorted_rows",
    "matching.head_gradients": (
        "LinearGradients functional_head_gradients gradients_of head_gradients "
        "linear_head_gradients"
    ),
    "matching.levels": "from_levels merged_levels overlap to_levels",
    "matching.pdm": "MovingMatch pdm_by_class",
    "matching.term": "MatchInputs MatchingTerm",
    "metrics.base": "Estimate Scale scores worst_scores",
    "metrics.calibration": "fitted_intercept fitted_slope",
    "metrics.classification": "share_estimate",
    "metrics.outputs": "NumberOutputs Outputs",
    "metrics.regression": "COVERAGE",
    "models.mlp": "MLP",
    "models.mnist_cnn": "MnistCNN",
    "models.pretrained": "FrozenNorms",
    "models.risk": (
        "NUMBER_LOSSES class_probabilities logit_residual loss_named per_sample_risk "
        "predicted_class"
    ),
    "models.weights": "load_weights read_weights",
    "models.weights_name": "content_hash",
    "paper.domainbed": "Matching",
    "paper.colored_mnist": "Figure1 Table1",
    "paper.comparison": "Cell Measured Published measured",
    "paper.measure": "allocated_peak medians ratio_of seconds_in_turn",
    "paper.published": "_deviation paper_table paper_tables",
    "paper.reproduce": "STUDIES runs_of_study",
    "paper.running_time": "batch_for built compare_timings read_timing relative_cost time_steps",
    "paper.studies": "Choice",
    "penalties.formulas": (
        "MovingAverage beta_weights coral gaussian_kernels gradient_spread irm_penalty mix "
        "mmd variance_across_domains variance_within_domains"
    ),
    "reporting.adaptation": "adaptation_lines shares_line",
    "reporting.demo": "demo_sentence",
    "reporting.diagnosis": "MOST_LINES diagnosis_json diagnosis_text drops_table",
    "reporting.formats": "as_aligned_latex csv_text tables_as_latex",
    "reporting.listings": "counts_table paragraphs",
    "reporting.page.card": "report_card",
    "reporting.page.charts": (
        "HELD_OUT_WITHIN SET_ASIDE baseline_plot cost_plot learning_curves rank_plot"
    ),
    "reporting.page.evidence": "ColumnByDomain ConfidentError Evidence read_evidence",
    "reporting.page.expectation": (
        "answer_sections column_strips cut_table expectation_blocks far_plot forest_plot "
        "share_map shortfall_plot"
    ),
    "reporting.page.predictions": (
        "POOLED confusion_table errors_plot pooled_map prediction_panels two_classes"
    ),
    "reporting.page.summary": "facts hparams_table other_selections sentence settings_table",
    "reporting.page.render": "diagnosis_html page_values results_page",
    "reporting.page.sentences": "beside_constant constant_answers worst_facts",
    "reporting.page.shifts": "diagnosis_blocks output_shift_table",
    "reporting.page.sweeps": "averages_table dataset_table heat_map",
    "reporting.page.values": "LEFT RIGHT TOP Axis",
    "reporting.paper_tables": "comparison_table far_note",
    "reporting.pictures": (
        "check_picture diagnosis_picture normalised rank_figure rank_picture write_dynamics"
    ),
    "reporting.sweep_tables": "sweep_tables",
    "reporting.table": "marks",
    "reporting.terminal": "WIDTH _left_out accuracy_table bar leave_one_out_table",
    "reporting.words": "describe_missing number_ranges",
    "shift.advise": "advise",
    "shift.diagnose": "diagnose",
    "shift.diagnosis": (
        "ColumnTrial Diagnosis Drop Loss ModelShift ModelView MovedClass MovedFeature Pair "
        "Points Prediction"
    ),
    "shift.drops": "column_trials drops_of",
    "shift.interpretation": "findings summary",
    "shift.labels": "NUMBER_PARTS PARTS _losses _mean labels_of percent_explained",
    "shift.localize": "moved_features stratified",
    "shift.posteriors": "ClassPosteriors LowerBounds posteriors",
    "shift.samples": "choose_domains collect every_sample some_of",
    "shift.trained_run": "unseen_samples view_of_run",
    "sklearn.inputs": "dataset_of recognised",
    "sklearn.run": "Reporter",
    "statistics.auroc": "auroc_influence auroc_variance",
    "statistics.features": "functions_to_test normal_scores second_order",
    "statistics.meta_analysis": "confidence_mixture outlier_p_values predictive",
    "statistics.panel": "BINS Gaussian Marginals Target Views added combined",
    "statistics.permutation": "conditional_independence covariate_p exact_p_values independence",
    "statistics.recalibration": "first_coefficient recalibrate",
    "statistics.sample": "LogRatio checked stratified_mean",
    "statistics.small_network": "HIDDEN RATE _Shapes _Stack fit_networks",
    "statistics.stacking": "least_squares_weights log_weights mixture_weights",
    "sweeps.aggregate": "CellResults DatasetResults MissingRun SelectionResults aggregate",
    "sweeps.comparisons": (
        "compare_ranks compare_selected critical_difference "
        "Ranks compare_with_baseline competition_ranks holm rank_algorithms sign_flip_p_values"
    ),
    "sweeps.domainbed.export": "write_domainbed_runs",
    "sweeps.domainbed.logs": "read_domainbed_runs",
    "sweeps.domainbed.names": (
        "ALGORITHM_NAMES DATASET_NAMES algorithm_title domain_titles translate"
    ),
    "sweeps.estimate": "Cost bytes_of",
    "sweeps.executors": "open_executor",
    "sweeps.executors.base": "Event Listener MOST_DEATHS WorkerPool run_jobs",
    "sweeps.executors.ray": (
        "Attempt RayExecutor Share SharedDatasets connected receive share_dataset "
        "with_absolute_path"
    ),
    "sweeps.executors.run_files": "Mailbox",
    "sweeps.jobs": "DatasetCache Job SweepData Variant algorithm_names variants_of",
    "sweeps.plan": "Block choose_hparams job_seed plan",
    "sweeps.presets": "PRESETS preset_named",
    "sweeps.read_runs": "read_archive read_planned_runs read_sweep write_archive",
    "sweeps.results": "Evaluation OutputShift Run",
    "sweeps.selected_models": "export_models select_models",
    "sweeps.selection": "SELECTORS Selection",
    "sweeps.selection.base": "Needs",
    "sweeps.standalone_runs": "LastStep runs_to_compare",
    "sweeps.store": "Standing SweepFolder sweep_status",
    "sweeps.stored_run": "evaluations_of read_planned_run",
    "sweeps.sweep": "SweepObserver longest_first make_plan run_sweep",
    "sweeps.tracker": "Tracker",
    "testing.contract": "CHECKS STEPS check_algorithm",
    "testing.harness": "build first_difference number_problem problem take_steps",
    "testing.traces": "REPLAYS Replay contrast_of_adrmx largest_deviation read_trace",
    "training.averaging": "AVERAGES LossValley Span averaged_tensors",
    "training.checkpoint": "load_state read_checkpoint save_state",
    "training.config": "NO_NETWORK RunConfig",
    "training.configure": "configure",
    "training.evaluate": "evaluate outputs_of",
    "training.evaluation_sets": "batch_size",
    "training.features": "_read _shard freeze",
    "training.fitting": "Fitting",
    "training.held_out": "HeldOutNumbers HeldOutScore",
    "training.interrupt": "stop_on_signal",
    "training.invariance": "label_entropy read shift_of_outputs",
    "training.load_run": "read_run",
    "training.loop": "preflight_notes train",
    "training.observers": "Observer",
    "training.outputs": "load_outputs",
    "training.records": "Records",
    "training.run_folder": "Ended RunFolder",
    "training.sample_weights": "balanced_weights training_weights",
    "training.settings": "EVALUATIONS",
    "training.trainer": "Trainer build_algorithm",
}
# Names that several modules use: the name in tests → module and name.
_RENAMED = {
    "advise_About": ("shift.advise", "About"),
    "aggregate_estimate": ("sweeps.aggregate", "estimate"),
    "best_combined": ("learners.best", "combined"),
    "checking_check_data": ("data.library.importing", "check_data"),
    "cli_main": ("cli", "main"),
    "compared_Comparison": ("inference.metrics", "Comparison"),
    "comparison_Comparison": ("paper.comparison", "Comparison"),
    "comparison_Row": ("paper.comparison", "Row"),
    "cores_side_by_side": ("core.cores", "side_by_side"),
    "curves_BOTTOM": ("reporting.page.values", "BOTTOM"),
    "diagnosis_About": ("reporting.diagnosis", "About"),
    "download_CHUNK": ("data.library.download", "CHUNK"),
    "estimator_title": ("learners.estimator", "title"),
    "expectation_HeldOut": ("reporting.page.expectation", "HeldOut"),
    "export_FORMATS": ("inference.export", "FORMATS"),
    "harness_BATCH": ("testing.harness", "BATCH"),
    "held_out_HeldOut": ("inference.adaptation.label_shift", "HeldOut"),
    "index_BATCH": ("data.images.index", "BATCH"),
    "lead_lead": ("reporting.page.sentences", "lead"),
    "network_DECAY": ("statistics.small_network", "DECAY"),
    "page_HeldOut": ("reporting.page.expectation", "HeldOut"),
    "page_Source": ("reporting.page.render", "Source"),
    "panel_Shares": ("statistics.panel", "Shares"),
    "idm_auto_standardized": ("learners.algorithms.idm_auto", "standardized"),
    "parallel_side_by_side": ("matching._sort", "side_by_side"),
    "plan_combined": ("sweeps.plan", "combined"),
    "preflight_check_data": ("cli.preflight", "check_data"),
    "reliability_BOTTOM": ("reporting.page.values", "SQUARE"),
    "render_Source": ("reporting.page.render", "Source"),
    "report_FORMATS": ("api.report", "FORMATS"),
    "sources_Source": ("data.base", "Source"),
    "summary_lead": ("reporting.page.summary", "lead"),
    "summary_title": ("reporting.page.summary", "title"),
    "table_Row": ("reporting.table", "Row"),
    "traces_TOLERANCE": ("testing.traces", "TOLERANCE"),
    "traces_main": ("testing.traces", "main"),
    "updates_METHODS": ("inference.adaptation.recalibrate", "METHODS"),
}
# Whole modules, for tests that replace something in them.
_MODULES = {
    "api_parallel": "api.parallel",
    "api_study_baselines": "api.study_baselines",
    "cli": "cli",
    "cli_reproduce": "cli.reproduce",
    "cli_study_progress": "cli.study_progress",
    "core.cores": "sweeps.resources",
    "core_cores": "core.cores",
    "core_gzip_lines": "core.files",
    "migrations": "core.migrations",
    "core_own_process": "core.cores",
    "data_base": "data.base",
    "data_download": "data.library.download",
    "data_importing": "data.library.importing",
    "data_index": "data.images.index",
    "data_mnist": "data.datasets.mnist",
    "data_near_identical": "data.images.near_identical",
    "data_read": "data.tables.read",
    "data_rotated_mnist": "data.datasets.rotated_mnist",
    "data_spawrious": "data.datasets.spawrious",
    "data_unpack": "data.library.unpack",
    "learners_best": "learners.best",
    "learners_estimator": "learners.estimator",
    "matching_gradients": "matching.head_gradients",
    "matching_linear_head": "matching.linear_head",
    "paper_running_time": "paper.running_time",
    "reporting_comparable": "reporting.page.sweeps",
    "reporting_pictures": "reporting.pictures",
    "reporting_dynamics": "reporting.pictures",
    "reporting_formats": "reporting.formats",
    "sweeps_demo": "sweeps.demo",
    "sweeps_estimate": "sweeps.estimate",
    "sweeps_local": "sweeps.executors.local",
    "sweeps_logs": "sweeps.domainbed.logs",
    "sweeps_ray": "sweeps.executors.ray",
    "sweeps_run_files": "sweeps.executors.run_files",
    "sweeps_scratch": "sweeps.executors.run_files",
    "sweeps_significance": "sweeps.comparisons",
    "testing_contract": "testing.contract",
    "testing_description": "testing.contract",
    "testing_harness": "testing.harness",
    "training_evaluation_sets": "training.evaluation_sets",
    "training_features": "training.features",
    "training_invariance": "training.invariance",
    "training_loop": "training.loop",
}

_HOMES = {name: (module, name) for module, names in _NAMES.items() for name in names.split()}
_HOMES |= _RENAMED


def table_dataset(
    frame: Any,
    name: str,
    label: str | None = None,
    domain: str | None = None,
    missing_indicators: bool = False,
    **settings: Any,
) -> Any:
    """Return a table as a dataset; the settings are given as keywords."""
    read = import_module("shiftproof.data.tables.dataset").table_dataset
    given = __getattr__("DataSettings")(label=label, domain=domain, **settings)
    return read(frame, name, given, missing_indicators)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"shiftproof.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"tests/_internals.py does not list {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(f"shiftproof.{module}".rstrip(".")), attribute)
